// A Java heap full of small objects that refer to one another at random, visited a given number of times by some threads.
// Exits with 1 where what it finds at the end is not what it wrote.
//
// Arguments: bytes of heap to fill, seed, threads, visits of each thread.

import java.util.SplittableRandom;

public final class Visits {
    /** What an object takes: a head of 12 bytes, a reference of 4, four words; rounded up to 8. */
    private static final class Node {
        Node next;
        final long value;
        long visits, spare1, spare2;

        Node(long value) {
            this.value = value;
        }
    }

    /** Bytes of a node and of the reference to it in the table. */
    private static final long NODE_BYTES = 48 + 4;

    public static void main(String[] arguments) throws InterruptedException {
        long bytes = Long.parseLong(arguments[0]);
        long seed = Long.parseLong(arguments[1]);
        int threads = Integer.parseInt(arguments[2]);
        long visits = Long.parseLong(arguments[3]);
        int count = (int) Math.min(Integer.MAX_VALUE - 16, bytes / NODE_BYTES / threads);
        Ring[] rings = new Ring[threads];
        for (int number = 0; number < threads; number++) {
            rings[number] = new Ring(count, seed + number, visits);
            rings[number].start();
        }
        boolean right = true;
        for (Ring ring : rings) {
            ring.join();
            right &= ring.right;
        }
        System.exit(right ? 0 : 1);
    }

    /** Nodes in one ring in random order, which a thread makes and visits. */
    private static final class Ring extends Thread {
        private final int count;
        private final long seed, visits;
        boolean right;

        Ring(int count, long seed, long visits) {
            this.count = count;
            this.seed = seed;
            this.visits = visits;
        }

        @Override
        public void run() {
            Node[] nodes = build();
            Node at = nodes[0];
            long sum = 0;
            for (long visit = 0; visit < visits; visit++) {
                at.visits++;
                sum += at.value;
                at = at.next;
            }
            long counted = 0, expected = 0;
            for (Node node : nodes) {
                counted += node.visits;
                expected += node.visits * node.value;
            }
            right = counted == visits && expected == sum;
        }

        private Node[] build() {
            SplittableRandom random = new SplittableRandom(seed);
            Node[] nodes = new Node[count];
            for (int index = 0; index < count; index++) {
                nodes[index] = new Node(random.nextLong());
            }
            // Sattolo's shuffle of the nodes' successors: one cycle through all.
            int[] order = new int[count];
            for (int index = 0; index < count; index++) {
                order[index] = index;
            }
            for (int last = count - 1; last > 0; last--) {
                int other = random.nextInt(last + 1);
                int swapped = order[last];
                order[last] = order[other];
                order[other] = swapped;
            }
            for (int index = 0; index < count; index++) {
                nodes[order[index]].next = nodes[order[(index + 1) % count]];
            }
            return nodes;
        }
    }
}
