import java.time.Duration;
import java.util.*;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.*;

/** Scenarios of the Java client: Compat ADDRESS SCENARIO. */
public class Compat {
    static String address;

    static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    static void waitFor(BooleanSupplier condition, String what) {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (System.nanoTime() < end) if (condition.getAsBoolean()) return;
        throw new AssertionError("timed out: " + what);
    }

    static Properties config(Object... pairs) {
        Properties all = new Properties();
        all.put("bootstrap.servers", address);
        for (int i = 0; i < pairs.length; i += 2) all.put(pairs[i], pairs[i + 1]);
        return all;
    }

    static KafkaConsumer<byte[], byte[]> consumer(Object... pairs) {
        return new KafkaConsumer<>(config(pairs), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static KafkaProducer<byte[], byte[]> producer(Object... pairs) {
        return new KafkaProducer<>(config(pairs), new ByteArraySerializer(), new ByteArraySerializer());
    }

    static List<ProducerRecord<byte[], byte[]>> records(String topic, String prefix, long base) {
        List<ProducerRecord<byte[], byte[]>> made = new ArrayList<>();
        for (int n = 0; n < 60; n++) {
            byte[] key = n % 7 == 3 ? null : (prefix + "-k" + n).getBytes();
            byte[] value = n == 12 ? null : new byte[n == 11 ? 200_000 : n * 10];
            if (value != null) Arrays.fill(value, (byte) n);
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, 0, base + n * 1000L, key, value);
            if (n % 3 == 0) record.headers().add("h", new byte[] {0, -1}).add("h", "again".getBytes()).add("null", null);
            made.add(record);
        }
        return made;
    }

    static List<ConsumerRecord<byte[], byte[]>> read(KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> got = new ArrayList<>();
        waitFor(() -> {
            consumer.poll(Duration.ofMillis(200)).forEach(got::add);
            return got.size() >= count;
        }, count + " records to read");
        return got;
    }

    static void records(Admin admin) throws Exception {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            String topic = "java-" + codec + "-" + System.nanoTime();
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1).configs(Map.of("retention.ms", "-1")))).all().get();
            long base = System.currentTimeMillis() - 1_000_000;
            List<ProducerRecord<byte[], byte[]>> made = new ArrayList<>();
            for (String acks : List.of("all", "1", "0")) {
                var batch = records(topic, codec + acks, base);
                try (var producer = producer("acks", acks, "compression.type", codec, "linger.ms", 20,
                        "enable.idempotence", acks.equals("all"))) {
                    List<java.util.concurrent.Future<RecordMetadata>> sent = new ArrayList<>();
                    for (var record : batch) sent.add(producer.send(record));
                    for (int n = 0; n < sent.size(); n++) {
                        long offset = sent.get(n).get(60, TimeUnit.SECONDS).offset();
                        check(acks.equals("0") || offset == made.size() + n, "offset " + offset);
                    }
                }
                made.addAll(batch);
                var end = Map.of(new TopicPartition(topic, 0), OffsetSpec.latest());
                waitFor(() -> {
                    try {
                        return admin.listOffsets(end).all().get().values().iterator().next().offset() >= made.size();
                    } catch (Exception error) {
                        throw new AssertionError(error);
                    }
                }, "the end of the log");
            }
            var partition = new TopicPartition(topic, 0);
            try (var consumer = consumer("enable.auto.commit", false, "fetch.max.bytes", 100_000)) {
                consumer.assign(List.of(partition));
                consumer.seekToBeginning(List.of(partition));
                var got = read(consumer, made.size());
                for (int n = 0; n < made.size(); n++) {
                    var want = made.get(n);
                    var is = got.get(n);
                    boolean same = is.offset() == n && Arrays.equals(want.key(), is.key()) && Arrays.equals(want.value(), is.value())
                        && want.timestamp() == is.timestamp() && want.headers().equals(is.headers());
                    check(same, codec + ": record " + n + " is " + is);
                    for (Header header : is.headers()) check(header.key() != null, "header");
                }
                consumer.seek(partition, 77);
                check(read(consumer, 1).get(0).offset() == 77, "seek by offset");
                var found = consumer.offsetsForTimes(Map.of(partition, base + 20_000));
                check(found.get(partition).offset() == 20, "offset by time " + found);
                check(consumer.endOffsets(List.of(partition)).get(partition) == made.size(), "end");
                check(consumer.beginningOffsets(List.of(partition)).get(partition) == 0, "beginning");
            }
            admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(30))).all().get();
            var start = admin.listOffsets(Map.of(partition, OffsetSpec.earliest())).all().get();
            check(start.get(partition).offset() == 30, "records were deleted");
            admin.deleteTopics(List.of(topic)).all().get();
            waitFor(() -> {
                try {
                    return !admin.listTopics().names().get().contains(topic);
                } catch (Exception error) {
                    throw new AssertionError(error);
                }
            }, "the topic is deleted");
        }
        admin(admin);
    }

    static void admin(Admin admin) throws Exception {
        String topic = "java-admin-" + System.nanoTime();
        admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1))).all().get();
        check(admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size() == 2, "two partitions");
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
        waitFor(() -> {
            try {
                return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size() == 3;
            } catch (Exception error) {
                return false;
            }
        }, "three partitions");
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        var set = new AlterConfigOp(new ConfigEntry("retention.ms", "123456"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all().get();
        waitFor(() -> {
            try {
                return admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value().equals("123456");
            } catch (Exception error) {
                throw new AssertionError(error);
            }
        }, "the config is set");
        var broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        check(admin.describeConfigs(List.of(broker)).all().get().get(broker).entries().size() > 50, "configs of the broker");
        var cluster = admin.describeCluster();
        check(cluster.nodes().get().size() == 1 && cluster.clusterId().get().length() == 22, "the cluster");
        check(admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).size() == 1, "log directories");
    }

    static void groups(Admin admin) throws Exception {
        for (String protocol : List.of("classic")) {
            String topic = "java-group-" + System.nanoTime();
            String group = topic + "-" + protocol;
            admin.createTopics(List.of(new NewTopic(topic, 4, (short) 1))).all().get();
            send(topic, 0, 200);
            Object[] config = {"group.id", group, "group.protocol", protocol, "enable.auto.commit", false, "auto.offset.reset", "earliest"};
            Set<String> seen = new TreeSet<>();
            try (var first = consumer(config)) {
                first.subscribe(List.of(topic));
                for (var record : read(first, 200)) check(seen.add(new String(record.value())), "twice");
                first.commitSync();
                var second = consumer(config);
                second.subscribe(List.of(topic));
                List<String> one = new ArrayList<>();
                List<String> two = new ArrayList<>();
                waitFor(() -> {
                    first.poll(Duration.ofMillis(50)).forEach(r -> one.add(new String(r.value())));
                    second.poll(Duration.ofMillis(50)).forEach(r -> two.add(new String(r.value())));
                    return first.assignment().size() == 2 && second.assignment().size() == 2;
                }, "two members share");
                check(one.isEmpty() && two.isEmpty(), "nothing is read again after a commit");
                send(topic, 200, 300);
                waitFor(() -> {
                    first.poll(Duration.ofMillis(50)).forEach(r -> one.add(new String(r.value())));
                    second.poll(Duration.ofMillis(50)).forEach(r -> two.add(new String(r.value())));
                    return one.size() + two.size() >= 100;
                }, "both read");
                check(!one.isEmpty() && !two.isEmpty() && one.size() + two.size() == 100, "each its half");
                first.commitSync();
                second.commitSync();
                second.close();
                waitFor(() -> {
                    first.poll(Duration.ofMillis(50));
                    return first.assignment().size() == 4;
                }, "the first has all again");
            }
            send(topic, 300, 301);
            try (var third = consumer(config)) {
                third.subscribe(List.of(topic));
                check(new String(read(third, 1).get(0).value()).equals("v300"), "resumes at the commit");
                third.commitSync();
                var described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
                check(described.members().size() == 1, "one member");
                check(admin.listConsumerGroups().all().get().stream().anyMatch(g -> g.groupId().equals(group)), "listed");
            }
            long committed = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
                .values().stream().mapToLong(OffsetAndMetadata::offset).sum();
            check(committed == 301, "committed " + committed);
            admin.deleteConsumerGroups(List.of(group)).all().get();
            check(admin.listConsumerGroups().all().get().stream().noneMatch(g -> g.groupId().equals(group)), "deleted");
        }
    }

    static void send(String topic, int from, int to) {
        try (var producer = producer()) {
            for (int n = from; n < to; n++) producer.send(new ProducerRecord<>(topic, n % 4, null, ("v" + n).getBytes()));
        }
    }

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        try (Admin admin = Admin.create(config())) {
            if (arguments[1].equals("records")) records(admin);
            else groups(admin);
        }
        System.out.println("ok");
    }
}
