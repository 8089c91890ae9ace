import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Copies a topic in transactions, as Kafka's documentation has it: consume, produce, send the offsets to the transaction, commit. Each
 * thread has a consumer and a producer. It reports as the other programs of the benchmarks do.
 */
public final class TransactionalCopy {
    private static final AtomicLong DONE = new AtomicLong();
    private static final AtomicBoolean BEGAN = new AtomicBoolean();
    private static final AtomicBoolean HALVED = new AtomicBoolean();

    private TransactionalCopy() {
    }

    private static String now() {
        Instant t = Instant.now();
        return Long.toString(t.getEpochSecond() * 1_000_000_000L + t.getNano());
    }

    /** Arguments: bootstrap, source topic, output topic, group, records, records of a transaction, threads. */
    public static void main(String[] args) throws Exception {
        long want = Long.parseLong(args[4]);
        int batch = Integer.parseInt(args[5]);
        for (int i = 0; i < Integer.parseInt(args[6]); i++) {
            String id = args[3] + "-" + i;
            Thread t = new Thread(() -> copy(args[0], args[1], args[2], args[3], id, batch, want));
            t.setDaemon(true);
            t.start();
        }
        while (System.in.read() >= 0) {
            Thread.yield();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void copy(String bootstrap, String from, String to, String group, String id, int batch, long want) {
        Properties c = new Properties();
        c.put("bootstrap.servers", bootstrap);
        c.put("group.id", group);
        c.put("enable.auto.commit", "false");
        c.put("auto.offset.reset", "earliest");
        c.put("isolation.level", "read_committed");
        c.put("max.poll.records", Integer.toString(batch));
        c.put("fetch.min.bytes", "1048576");
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("transactional.id", id);
        p.put("batch.size", "1000000");
        p.put("buffer.memory", "67108864");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(c, new ByteArrayDeserializer(), new ByteArrayDeserializer());
             KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            consumer.subscribe(List.of(from));
            while (DONE.get() < want) {
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                int n = 0;
                for (int idle = 0; n < batch && idle < 2; ) {
                    ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                    if (records.isEmpty()) {
                        idle++;
                        continue;
                    }
                    if (n == 0) {
                        if (BEGAN.compareAndSet(false, true)) {
                            System.out.println("first " + now());
                        }
                        producer.beginTransaction();
                    }
                    for (ConsumerRecord<byte[], byte[]> r : records) {
                        producer.send(new ProducerRecord<>(to, null, r.timestamp(), r.key(), r.value(), r.headers()));
                        offsets.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
                    }
                    n += records.count();
                }
                if (n == 0) {
                    continue;
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                producer.commitTransaction();
                long done = DONE.addAndGet(n);
                if (done >= want / 2 && HALVED.compareAndSet(false, true)) {
                    System.out.println("half " + done);
                }
                if (done >= want && done - n < want) {
                    System.out.println("last " + now() + " " + done);
                }
            }
        }
    }
}
