// Scenarios of franz-go: franz ADDRESS SCENARIO
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func check(holds bool, what string, values ...any) {
	if !holds {
		fmt.Fprintf(os.Stderr, what+"\n", values...)
		os.Exit(1)
	}
}

func must[T any](value T, err error) T {
	check(err == nil, "%v", err)
	return value
}

func client(address string, options ...kgo.Opt) *kgo.Client {
	return must(kgo.NewClient(append(options, kgo.SeedBrokers(address))...))
}

func read(ctx context.Context, c *kgo.Client, count int) []*kgo.Record {
	var got []*kgo.Record
	for len(got) < count {
		fetches := c.PollFetches(ctx)
		check(ctx.Err() == nil, "timed out after %d of %d records", len(got), count)
		for _, e := range fetches.Errors() {
			check(false, "fetch: %v", e.Err)
		}
		got = append(got, fetches.Records()...)
	}
	return got
}

func same(a, b []kgo.RecordHeader) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Key != b[i].Key || !bytes.Equal(a[i].Value, b[i].Value) {
			return false
		}
	}
	return true
}

func records(ctx context.Context, address string) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	admin := kadm.NewClient(client(address))
	defer admin.Close()
	for name, codec := range codecs {
		topic := fmt.Sprintf("franz-%s-%d", name, time.Now().UnixNano())
		must(admin.CreateTopic(ctx, 1, 1, nil, topic))
		base := time.UnixMilli(time.Now().UnixMilli() - 1_000_000)
		var made []*kgo.Record
		for _, acks := range []kgo.Acks{kgo.AllISRAcks(), kgo.LeaderAck()} {
			options := []kgo.Opt{kgo.ProducerBatchCompression(codec), kgo.RequiredAcks(acks), kgo.ProducerLinger(20 * time.Millisecond),
				kgo.RecordPartitioner(kgo.ManualPartitioner())}
			if acks != kgo.AllISRAcks() {
				options = append(options, kgo.DisableIdempotentWrite())
			}
			producer := client(address, options...)
			var batch []*kgo.Record
			for n := 0; n < 60; n++ {
				record := &kgo.Record{Topic: topic, Value: bytes.Repeat([]byte{byte(n)}, n*20), Timestamp: base.Add(time.Duration(n) * time.Second)}
				if n%7 != 3 {
					record.Key = []byte(fmt.Sprintf("k%d", n))
				}
				if n == 12 {
					record.Value = nil
				}
				if n%3 == 0 {
					record.Headers = []kgo.RecordHeader{{Key: "h", Value: []byte{0, 255}}, {Key: "h", Value: []byte("again")}}
				}
				batch = append(batch, record)
			}
			check(producer.ProduceSync(ctx, batch...).FirstErr() == nil, "%s: produce", name)
			for n, record := range batch {
				check(record.Offset == int64(len(made)+n), "%s: offset %d at %d", name, record.Offset, len(made)+n)
			}
			made = append(made, batch...)
			producer.Close()
		}
		at := func(offset kgo.Offset) *kgo.Client {
			return client(address, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: offset}}))
		}
		reader := at(kgo.NewOffset().AtStart())
		for n, is := range read(ctx, reader, len(made)) {
			want := made[n]
			check(is.Offset == int64(n) && bytes.Equal(is.Key, want.Key) && bytes.Equal(is.Value, want.Value) &&
				(is.Key == nil) == (want.Key == nil) && (is.Value == nil) == (want.Value == nil) &&
				is.Timestamp.UnixMilli() == want.Timestamp.UnixMilli() && same(is.Headers, want.Headers), "%s: record %d is %v", name, n, is)
		}
		reader.Close()
		reader = at(kgo.NewOffset().At(77))
		check(read(ctx, reader, 1)[0].Offset == 77, "by offset")
		reader.Close()
		reader = at(kgo.NewOffset().AfterMilli(base.UnixMilli() + 20_000))
		check(read(ctx, reader, 1)[0].Offset == 20, "by time")
		reader.Close()
		ends := must(admin.ListEndOffsets(ctx, topic))
		check(ends[topic][0].Offset == int64(len(made)), "the end")
		must(admin.DeleteTopic(ctx, topic))
		for deleted := false; !deleted; {
			check(ctx.Err() == nil, "the topic is deleted")
			topics, err := admin.ListTopics(ctx)
			check(err == nil, "%v", err)
			deleted = !topics.Has(topic)
		}
	}
}

func groups(ctx context.Context, address string) {
	admin := kadm.NewClient(client(address))
	defer admin.Close()
	topic := fmt.Sprintf("franz-group-%d", time.Now().UnixNano())
	group := topic + "-g"
	must(admin.CreateTopic(ctx, 4, 1, nil, topic))
	send := func(from, to int) {
		producer := client(address, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		for n := from; n < to; n++ {
			producer.Produce(ctx, &kgo.Record{Topic: topic, Partition: int32(n % 4), Value: []byte(fmt.Sprintf("%03d", n))}, nil)
		}
		check(producer.Flush(ctx) == nil, "flush")
		producer.Close()
	}
	member := func() *kgo.Client {
		return client(address, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.BlockRebalanceOnPoll())
	}
	poll := func(c *kgo.Client) []string {
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		var got []string
		for _, record := range c.PollFetches(short).Records() {
			got = append(got, string(record.Value))
		}
		c.AllowRebalance()
		return got
	}
	send(0, 200)
	first := member()
	var seen []string
	for len(seen) < 200 {
		check(ctx.Err() == nil, "one member reads all: %d", len(seen))
		seen = append(seen, poll(first)...)
	}
	sort.Strings(seen)
	for n, value := range seen {
		check(value == fmt.Sprintf("%03d", n), "read %s at %d", value, n)
	}
	check(first.CommitUncommittedOffsets(ctx) == nil, "commit")
	second := member()
	var one, two []string
	for {
		check(ctx.Err() == nil, "two members share")
		one, two = append(one, poll(first)...), append(two, poll(second)...)
		described := must(admin.DescribeGroups(ctx, group))[group]
		if described.State == "Stable" && len(described.Members) == 2 {
			break
		}
	}
	check(len(one)+len(two) == 0, "nothing is read again: %v %v", one, two)
	send(200, 300)
	for len(one)+len(two) < 100 {
		check(ctx.Err() == nil, "both read")
		one, two = append(one, poll(first)...), append(two, poll(second)...)
	}
	check(len(one) > 0 && len(two) > 0 && len(one)+len(two) == 100, "each its half: %d %d", len(one), len(two))
	check(first.CommitUncommittedOffsets(ctx) == nil && second.CommitUncommittedOffsets(ctx) == nil, "commit")
	second.Close()
	first.Close()
	send(300, 301)
	third := member()
	var rest []string
	for len(rest) == 0 {
		check(ctx.Err() == nil, "resumes")
		rest = poll(third)
	}
	check(len(rest) == 1 && rest[0] == "300", "resumed at %v", rest)
	check(third.CommitUncommittedOffsets(ctx) == nil, "commit")
	third.Close()
	offsets := must(admin.FetchOffsets(ctx, group))
	var sum int64
	offsets.Each(func(o kadm.OffsetResponse) { sum += o.At })
	check(sum == 301, "committed %d", sum)
	deleted := must(admin.DeleteGroups(ctx, group))
	check(deleted.Error() == nil, "%v", deleted.Error())
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 80*time.Second)
	defer cancel()
	if os.Args[2] == "records" {
		records(ctx, os.Args[1])
	} else {
		groups(ctx, os.Args[1])
	}
	fmt.Println("ok")
}
