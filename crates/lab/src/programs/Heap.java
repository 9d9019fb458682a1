// A Java heap full of small objects that refer to one another at random. Speaks as `mega workload` does: a line of JSON
// when the objects are there, another when standard input has ended.
//
// Arguments: bytes of heap to fill, seed.

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.SplittableRandom;

public final class Heap {
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
    /** Visits between two looks at the clock. */
    private static final int BATCH = 1 << 14;
    /** The shortest time over which a rate is given. */
    private static final long WINDOW_NS = 100_000_000L;
    /** How long the collector may take to give back what was dropped. */
    private static final long GIVING_BACK_MS = 10_000;
    /** For how long resident memory must stay as it is. */
    private static final long QUIET_MS = 300;
    /** By how many bytes it may still change. */
    private static final long SMALL_CHANGE = 1 << 20;

    public static void main(String[] arguments) throws IOException, InterruptedException {
        long bytes = Long.parseLong(arguments[0]);
        long seed = Long.parseLong(arguments[1]);
        int count = (int) Math.min(Integer.MAX_VALUE - 16, bytes / NODE_BYTES);
        Node[] nodes = build(count, seed);
        System.out.println("{\"event\":\"ready\",\"pid\":" + ProcessHandle.current().pid()
            + ",\"workload\":\"java\",\"seed\":" + seed + ",\"areas\":[]}");
        System.out.flush();

        InputEnd end = new InputEnd();
        end.setDaemon(true);
        end.start();
        StringBuilder rates = new StringBuilder();
        Node at = nodes[0];
        long visits = 0, inWindow = 0, sum = 0;
        long started = System.nanoTime(), window = started;
        while (!end.came) {
            for (int step = 0; step < BATCH; step++) {
                at.visits++;
                sum += at.value;
                at = at.next;
            }
            visits += BATCH;
            inWindow += BATCH;
            long now = System.nanoTime();
            if (now - window >= WINDOW_NS) {
                rates.append(rates.isEmpty() ? "" : ",").append("{\"from\":").append((window - started) / 1e9)
                    .append(",\"to\":").append((now - started) / 1e9)
                    .append(",\"rate\":").append(inWindow / ((now - window) / 1e9)).append('}');
                window = now;
                inWindow = 0;
            }
        }
        double seconds = (System.nanoTime() - started) / 1e9;
        boolean right = isRight(nodes, seed, visits, sum);

        // Most is dropped: of ten nodes nine, so that the collector can give memory back.
        Node[] kept = new Node[count / 10];
        System.arraycopy(nodes, 0, kept, 0, kept.length);
        for (Node node : kept) {
            node.next = null;
        }
        nodes = null;
        at = null;
        awaitGivingBack();
        right = right && areFirst(kept, seed);

        System.out.println("{\"event\":\"done\",\"seconds\":" + seconds + ",\"operations\":" + visits
            + ",\"operations_per_second\":" + visits / seconds
            + ",\"steady_operations_per_second\":" + visits / seconds
            + ",\"operations_per_second_over_time\":[" + rates + "]"
            + ",\"checksum\":\"" + String.format("%016x", sum) + "\",\"verified\":" + right
            + ",\"resident_bytes\":" + inMemory("Rss:") + ",\"huge_bytes\":" + inMemory("AnonHugePages:")
            + ",\"first_touch\":null}");
    }

    /** Nodes in one ring in random order. */
    private static Node[] build(int count, long seed) {
        Node[] nodes = new Node[count];
        for (int index = 0; index < count; index++) {
            nodes[index] = new Node(mix(seed + index));
        }
        // Sattolo's shuffle of the nodes' successors: one cycle through all.
        int[] order = new int[count];
        for (int index = 0; index < count; index++) {
            order[index] = index;
        }
        SplittableRandom random = new SplittableRandom(seed);
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

    /** Whether each node holds its value, and their visits are all that were made, with the sum of what was read. */
    private static boolean isRight(Node[] nodes, long seed, long visits, long sum) {
        long counted = 0, expected = 0;
        for (Node node : nodes) {
            counted += node.visits;
            expected += node.visits * node.value;
        }
        return areFirst(nodes, seed) && counted == visits && expected == sum;
    }

    private static boolean areFirst(Node[] nodes, long seed) {
        for (int index = 0; index < nodes.length; index++) {
            if (nodes[index].value != mix(seed + index)) {
                return false;
            }
        }
        return true;
    }

    /** SplitMix64's output function. */
    private static long mix(long word) {
        word = (word ^ (word >>> 30)) * 0xbf58476d1ce4e5b9L;
        word = (word ^ (word >>> 27)) * 0x94d049bb133111ebL;
        return word ^ (word >>> 31);
    }

    /** Waits until the collector has made the heap smaller and the kernel has the memory back, which comes later. */
    private static void awaitGivingBack() throws IOException, InterruptedException {
        long full = Runtime.getRuntime().totalMemory();
        long last = Long.MAX_VALUE;
        boolean smaller = false;
        for (long waited = 0; waited < GIVING_BACK_MS; waited += QUIET_MS) {
            long resident = inMemory("Rss:");
            if (smaller && resident > last - SMALL_CHANGE) {
                return;
            }
            smaller = Runtime.getRuntime().totalMemory() <= full / 2;
            last = resident;
            Thread.sleep(QUIET_MS);
        }
    }

    /** A line `Name: 123 kB` of what this process has in memory, in bytes; 0 where there is none. */
    private static long inMemory(String name) throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/smaps_rollup"))) {
            if (line.startsWith(name)) {
                return Long.parseLong(line.substring(name.length()).replace("kB", "").trim()) * 1024;
            }
        }
        return 0;
    }

    /** Notes when standard input has ended. */
    private static final class InputEnd extends Thread {
        volatile boolean came;

        @Override
        public void run() {
            try {
                while (System.in.read() >= 0) {
                    // What is said there is of no matter.
                }
            } catch (IOException unreadable) {
                // An input that cannot be read has ended.
            }
            came = true;
        }
    }
}
