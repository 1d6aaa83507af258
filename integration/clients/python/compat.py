"""Scenarios of confluent-kafka and kafka-python against a broker: compat.py CLIENT ADDRESS SCENARIO."""

import queue
import sys
import threading
import time
import uuid

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
PATIENCE = 60


def records(prefix, count=50):
    """Keys, values, headers: with nulls, empty and binary ones, and one large value."""
    base = int(time.time() * 1000) - 1_000_000
    made = []
    for n in range(count):
        key = None if n % 7 == 3 else f"{prefix}-k{n}".encode()
        value = bytes(range(256)) * (n % 5) + f"{prefix}-v{n}".encode()
        if n == 11:
            value = b"x" * 200_000
        if n == 12:
            value = b""
        headers = [("h1", b"\x00\xff"), ("h1", b"again"), ("empty", b"")] if n % 3 == 0 else []
        made.append((key, value, headers, base + n * 1000))
    return made


def wait(condition, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
    raise AssertionError(f"timed out: {what}")


class Confluent:
    def __init__(self, address):
        from confluent_kafka.admin import AdminClient

        self.address = address
        self.admin = AdminClient({"bootstrap.servers": address})

    def create(self, topic, partitions):
        from confluent_kafka.admin import NewTopic

        for future in self.admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            future.result(PATIENCE)

    def delete(self, topic):
        for future in self.admin.delete_topics([topic]).values():
            future.result(PATIENCE)

    def topics(self):
        return set(self.admin.list_topics(timeout=PATIENCE).topics)

    def produce(self, topic, made, codec, acks):
        from confluent_kafka import Producer

        config = {"bootstrap.servers": self.address, "compression.type": codec, "acks": acks, "linger.ms": 20}
        if acks == "all":
            config["enable.idempotence"] = True
        producer, offsets = Producer(config), {}

        def delivered(error, message):
            assert error is None, error
            offsets[message.value()] = message.offset()

        for key, value, headers, timestamp in made:
            producer.produce(topic, value, key, partition=0, headers=headers, timestamp=timestamp, on_delivery=delivered)
        assert producer.flush(PATIENCE) == 0, "all delivered"
        return offsets

    def read(self, topic, offset, count):
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "unused", "enable.auto.commit": False, "check.crcs": True})
        consumer.assign([TopicPartition(topic, 0, offset)])
        got = []
        while len(got) < count:
            message = consumer.poll(PATIENCE)
            assert message is not None and message.error() is None, message and message.error()
            got.append((message.offset(), message.key(), message.value(), message.headers() or [], message.timestamp()[1]))
        consumer.close()
        return got

    def offset_at(self, topic, timestamp):
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "unused"})
        found = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], timeout=PATIENCE)[0]
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE)
        consumer.close()
        return found.offset, low, high

    def member(self, group, topic):
        from confluent_kafka import Consumer

        client = Consumer({
            "bootstrap.servers": self.address, "group.id": group, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "session.timeout.ms": 10_000,
        })
        client.subscribe([topic])

        class Member:
            def poll(self):
                message = client.poll(0.1)
                return [] if message is None or message.error() else [message.value()]

            def assignment(self):
                return len(client.assignment())

            def commit(self):
                client.commit(asynchronous=False)

            def close(self):
                client.close()

        return Member()

    def groups(self):
        return {group.group_id for group in self.admin.list_consumer_groups().result(PATIENCE).valid}

    def delete_group(self, group):
        for future in self.admin.delete_consumer_groups([group]).values():
            future.result(PATIENCE)


class ThreadedMember:
    """A kafka-python consumer in a thread of its own: it forgets a rebalance that a short poll interrupts."""

    def __init__(self, make):
        self.values, self.commands, self.owned = queue.Queue(), queue.Queue(), 0
        self.thread = threading.Thread(target=self.run, args=(make,), daemon=True)
        self.thread.start()

    def run(self, make):
        client = make()
        while True:
            for messages in client.poll(timeout_ms=1000).values():
                for message in messages:
                    self.values.put(message.value)
            self.owned = len(client.assignment())
            while not self.commands.empty():
                name, done = self.commands.get()
                getattr(client, name)()
                done.set()
                if name == "close":
                    return

    def ask(self, name):
        done = threading.Event()
        self.commands.put((name, done))
        assert done.wait(PATIENCE), name

    def poll(self):
        try:
            return [self.values.get(timeout=0.05)]
        except queue.Empty:
            return []

    def assignment(self):
        return self.owned

    def commit(self):
        self.ask("commit")

    def close(self):
        self.ask("close")


class KafkaPython:
    def __init__(self, address):
        from kafka import KafkaAdminClient

        self.address = address
        self.admin = KafkaAdminClient(bootstrap_servers=address)

    def create(self, topic, partitions):
        from kafka.admin import NewTopic

        self.admin.create_topics([NewTopic(name=topic, num_partitions=partitions, replication_factor=1)])

    def delete(self, topic):
        self.admin.delete_topics([topic])

    def topics(self):
        return set(self.admin.list_topics())

    def produce(self, topic, made, codec, acks):
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=self.address, compression_type=None if codec == "none" else codec,
            acks=acks if acks == "all" else int(acks), linger_ms=20, enable_idempotence=acks == "all",
        )
        futures = [
            (value, producer.send(topic, value, key, headers, partition=0, timestamp_ms=timestamp))
            for key, value, headers, timestamp in made
        ]
        producer.flush(PATIENCE)
        offsets = {value: future.get(PATIENCE).offset for value, future in futures}
        producer.close()
        return offsets

    def read(self, topic, offset, count):
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(bootstrap_servers=self.address, group_id=None)
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, offset)
        got = []

        def more():
            for messages in consumer.poll(timeout_ms=1000).values():
                for m in messages:
                    got.append((m.offset, m.key, m.value, list(m.headers), m.timestamp))
            return len(got) >= count

        wait(more, "records to read")
        consumer.close()
        return got

    def offset_at(self, topic, timestamp):
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(bootstrap_servers=self.address, group_id=None)
        partition = TopicPartition(topic, 0)
        found = consumer.offsets_for_times({partition: timestamp})[partition]
        low = consumer.beginning_offsets([partition])[partition]
        high = consumer.end_offsets([partition])[partition]
        consumer.close()
        return (found.offset if found else -1), low, high

    def member(self, group, topic):
        from kafka import KafkaConsumer

        return ThreadedMember(lambda: KafkaConsumer(
            topic, bootstrap_servers=self.address, group_id=group, auto_offset_reset="earliest",
            enable_auto_commit=False, session_timeout_ms=10_000,
        ))

    def groups(self):
        return {group[0] if isinstance(group, tuple) else group["group_id"] for group in self.admin.list_groups()}

    def delete_group(self, group):
        self.admin.delete_groups([group])


def scenario_records(client):
    for codec in CODECS:
        topic = f"py-{codec}-{uuid.uuid4().hex[:8]}"
        client.create(topic, 1)
        made = []
        for acks in ["all", "1", "0"]:
            batch = records(f"{codec}-{acks}")
            offsets = client.produce(topic, batch, codec, acks)
            if acks != "0":
                expected = {value: len(made) + n for n, (_, value, _, _) in enumerate(batch)}
                repeated = {b"", b"x" * 200_000}
                assert all(offsets[v] == o for v, o in expected.items() if v not in repeated), f"{codec} {acks}: offsets"
            made += batch
            wait(lambda: client.offset_at(topic, 0)[2] >= len(made), f"{codec} {acks}: the end of the log")
        got = client.read(topic, 0, len(made))
        for n, ((key, value, headers, timestamp), read) in enumerate(zip(made, got)):
            want = (n, key, value, headers, timestamp)
            assert read == want, f"{codec}: {str(read)[:300]} is not {str(want)[:300]}"
        # By offset, in the middle of a batch, and by time.
        assert client.read(topic, 77, 1)[0][0] == 77
        found, low, high = client.offset_at(topic, made[20][3])
        assert (found, low, high) == (20, 0, len(made)), (found, low, high)
        assert client.offset_at(topic, made[-1][3] + 10_000_000)[0] in (-1, len(made))
        client.delete(topic)
        wait(lambda: topic not in client.topics(), "the topic is deleted")


def scenario_groups(client):
    topic, group = f"py-g-{uuid.uuid4().hex[:8]}", f"group-{uuid.uuid4().hex[:8]}"
    client.create(topic, 4)
    made = [f"v{n}".encode() for n in range(200)]

    def produce_all(values):
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": client.address})
        for n, value in enumerate(values):
            producer.produce(topic, value, partition=n % 4)
        assert producer.flush(PATIENCE) == 0

    produce_all(made)
    seen = []
    first = client.member(group, topic)
    wait(lambda: seen.extend(first.poll()) or len(seen) >= 200, "one member reads all")
    assert sorted(seen) == sorted(made) and first.assignment() == 4
    first.commit()
    # A second member takes half, and gets what comes.
    second = client.member(group, topic)
    one, two = [], []

    def shared():
        one.extend(first.poll())
        two.extend(second.poll())
        return first.assignment() == 2 and second.assignment() == 2

    wait(shared, "two members share")
    assert one == [] and two == [], "nothing is read again after a commit"
    more = [f"w{n}".encode() for n in range(100)]
    produce_all(more)
    wait(lambda: shared() and len(one) + len(two) >= 100, "both read")
    assert sorted(one + two) == sorted(more) and one and two
    first.commit()
    second.commit()
    second.close()
    wait(lambda: one.extend(first.poll()) or first.assignment() == 4, "the first has all again")
    first.close()
    # Resumed from the commits.
    produce_all([b"last"])
    third, rest = client.member(group, topic), []
    wait(lambda: rest.extend(third.poll()) or rest, "resumes")
    assert rest == [b"last"], rest
    third.commit()
    assert group in client.groups()
    third.close()
    client.delete_group(group)
    assert group not in client.groups()
    client.delete(topic)


if __name__ == "__main__":
    kind, address, scenario = sys.argv[1:]
    chosen = {"confluent": Confluent, "kafka-python": KafkaPython}[kind](address)
    {"records": scenario_records, "groups": scenario_groups}[scenario](chosen)
    print("ok")
