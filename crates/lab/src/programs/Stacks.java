// Many threads, each with a stack of its own that it has used for some depth. Speaks as `mega workload` does: a line of JSON when
// all have come to that depth, another when standard input has ended.
//
// Arguments: threads, seed.

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;

public final class Stacks {
    /** Calls in one another: they take some 64 KiB. */
    private static final int DEPTH = 640;

    public static void main(String[] arguments) throws IOException, InterruptedException {
        int count = Integer.parseInt(arguments[0]);
        long seed = Long.parseLong(arguments[1]);
        CountDownLatch deep = new CountDownLatch(count), over = new CountDownLatch(1);
        Deep[] threads = new Deep[count];
        long started = System.nanoTime();
        for (int number = 0; number < count; number++) {
            threads[number] = new Deep(seed + number, deep, over);
            threads[number].start();
        }
        deep.await();
        double seconds = (System.nanoTime() - started) / 1e9;
        System.out.println("{\"event\":\"ready\",\"pid\":" + ProcessHandle.current().pid()
            + ",\"workload\":\"stacks\",\"seed\":" + seed + ",\"areas\":[]}");
        System.out.flush();
        while (System.in.read() >= 0) {
            // What is said there is of no matter.
        }
        long resident = inMemory("Rss:"), huge = inMemory("AnonHugePages:");
        over.countDown();
        boolean right = true;
        long sum = 0;
        for (Deep thread : threads) {
            thread.join();
            right &= thread.found == expected(thread.seed);
            sum += thread.found;
        }
        System.out.println("{\"event\":\"done\",\"seconds\":" + seconds + ",\"operations\":" + count
            + ",\"operations_per_second\":" + count / seconds
            + ",\"steady_operations_per_second\":" + count / seconds
            + ",\"operations_per_second_over_time\":[]"
            + ",\"checksum\":\"" + String.format("%016x", sum) + "\",\"verified\":" + right
            + ",\"resident_bytes\":" + resident + ",\"huge_bytes\":" + huge + ",\"first_touch\":null}");
    }

    private static long expected(long seed) {
        long word = seed;
        for (int depth = 0; depth < DEPTH; depth++) {
            word = mix(word);
        }
        return word;
    }

    /** SplitMix64's output function. */
    private static long mix(long word) {
        word = (word ^ (word >>> 30)) * 0xbf58476d1ce4e5b9L;
        word = (word ^ (word >>> 27)) * 0x94d049bb133111ebL;
        return word ^ (word >>> 31);
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

    /** Goes down, waits there, and comes back with what it went down with, mixed once for each call. */
    private static final class Deep extends Thread {
        private final long seed;
        private final CountDownLatch deep, over;
        long found;

        Deep(long seed, CountDownLatch deep, CountDownLatch over) {
            this.seed = seed;
            this.deep = deep;
            this.over = over;
        }

        @Override
        public void run() {
            found = descend(DEPTH);
        }

        private long descend(int depth) {
            if (depth > 0) {
                return mix(descend(depth - 1));
            }
            deep.countDown();
            try {
                over.await();
            } catch (InterruptedException nobodys) {
                Thread.currentThread().interrupt();
            }
            return seed;
        }
    }
}
