import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/** A Kafka Connect sink that counts records and forgets them. It reports as the other programs of the benchmarks do. */
public class CountingSink extends SinkConnector {
    private Map<String, String> settings;

    @Override
    public String version() {
        return "1";
    }

    @Override
    public void start(Map<String, String> settings) {
        this.settings = settings;
    }

    @Override
    public void stop() {
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Counter.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        List<Map<String, String>> tasks = new ArrayList<>();
        for (int i = 0; i < maxTasks; i++) {
            tasks.add(settings);
        }
        return tasks;
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("records", ConfigDef.Type.LONG, ConfigDef.Importance.HIGH, "Records to report the end of")
            .define("delay.ms", ConfigDef.Type.LONG, 0L, ConfigDef.Importance.LOW, "Time of a put");
    }

    /** The tasks of the process count together. */
    public static class Counter extends SinkTask {
        private static final AtomicLong DONE = new AtomicLong();
        private long want;
        private long delay;

        @Override
        public String version() {
            return "1";
        }

        @Override
        public void start(Map<String, String> settings) {
            want = Long.parseLong(settings.get("records"));
            delay = Long.parseLong(settings.getOrDefault("delay.ms", "0"));
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            if (records.isEmpty()) {
                return;
            }
            if (delay > 0) {
                try {
                    Thread.sleep(delay);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }
            long before = DONE.getAndAdd(records.size());
            long after = before + records.size();
            if (before == 0) {
                System.out.println("first " + now());
            }
            if (before < want / 2 && after >= want / 2) {
                System.out.println("half " + after);
            }
            if (before < want && after >= want) {
                System.out.println("last " + now() + " " + after);
            }
        }

        @Override
        public void stop() {
        }

        private static long now() {
            Instant now = Instant.now();
            return now.getEpochSecond() * 1_000_000_000L + now.getNano();
        }
    }
}
