package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tollgate/schemas"
)

// Limits size the streams. Zero values are the defaults named below.
type Limits struct {
	LaneBytes      int64         // of each lane's stream; 0: 1 GiB
	LanePerSubject int64         // messages waiting for one tenant and tool; 0: 100,000
	LetterBytes    int64         // of the dead letters; 0: 4 GiB
	Results        time.Duration // how long outcomes can be read; 0: 7 days
	Replicas       int           // 0: 1
	AsyncResults   bool          // results reach the disk later than their answer: only with a ledger that keeps them owed until then
	AckWait        time.Duration // 0: 30 s
}

func (l Limits) withDefaults() Limits {
	if l.LaneBytes == 0 {
		l.LaneBytes = 1 << 30
	}
	if l.LanePerSubject == 0 {
		l.LanePerSubject = 100_000
	}
	if l.LetterBytes == 0 {
		l.LetterBytes = 4 << 30
	}
	if l.Results == 0 {
		l.Results = 7 * 24 * time.Hour
	}
	if l.AckWait == 0 {
		l.AckWait = 30 * time.Second
	}
	l.Replicas = max(1, l.Replicas)
	return l
}

// Names are the names of Tollgate's streams below one subject prefix.
type Names struct{ Calls, Jobs, Retry, Results, Letters, Audit, Owner string }

// StreamNames returns the stream names that go with a subject prefix.
func StreamNames(s schemas.Subjects) Names {
	p := strings.ToUpper(strings.ReplaceAll(s.Prefix, ".", "_"))
	return Names{p + "_CALLS", p + "_JOBS", p + "_RETRY", p + "_RESULTS", p + "_DLQ", p + "_AUDIT", p + "_OWNER"}
}

// Lane is the name of a lane's stream.
func (n Names) Lane(l schemas.Lane) string {
	if l == schemas.Jobs {
		return n.Jobs
	}
	return n.Calls
}

// Streams returns the streams as they have to be.
func Streams(s schemas.Subjects, l Limits) []jetstream.StreamConfig {
	l = l.withDefaults()
	n := StreamNames(s)
	persist := jetstream.DefaultPersistMode
	if l.AsyncResults {
		persist = jetstream.AsyncPersistMode
	}
	lane := func(name string, lane schemas.Lane) jetstream.StreamConfig {
		return jetstream.StreamConfig{
			Name: name, Subjects: []string{s.Prefix + "." + string(lane) + ".>"}, Retention: jetstream.LimitsPolicy, // the consumer trims what is acknowledged: see trim.go
			Discard: jetstream.DiscardNew, MaxBytes: l.LaneBytes, MaxMsgsPerSubject: l.LanePerSubject, DiscardNewPerSubject: true,
			Duplicates: 2 * time.Minute, Replicas: l.Replicas, Description: "Tool calls on their way in. Agents may publish here and nowhere else.",
		}
	}
	return []jetstream.StreamConfig{
		lane(n.Calls, schemas.Calls),
		lane(n.Jobs, schemas.Jobs),
		{
			Name: n.Retry, Subjects: []string{s.Prefix + ".sched.>", s.Prefix + ".retry.>"}, Retention: jetstream.WorkQueuePolicy,
			MaxMsgsPerSubject: 1, AllowMsgSchedules: true, Replicas: l.Replicas, // no other limit: it would eat waiting retries
			Description: "Retries, armed and fired. Only the dispatcher publishes here.",
		},
		{
			Name: n.Results, Subjects: []string{s.Prefix + ".results.>"}, Retention: jetstream.LimitsPolicy, MaxMsgsPerSubject: 1,
			MaxAge: l.Results, AllowDirect: true, PersistMode: persist, Replicas: l.Replicas, Description: "The last outcome of every call.",
		},
		{
			Name: n.Letters, Subjects: []string{s.Prefix + ".dlq.>"}, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
			MaxBytes: l.LetterBytes, AllowDirect: true, Replicas: l.Replicas, Description: "Dead letters. Inspect and replay them with tollgate dlq.",
		},
		{
			Name: n.Audit, Subjects: []string{s.Prefix + ".audit.>"}, Retention: jetstream.LimitsPolicy, DenyDelete: true,
			DenyPurge: true, Duplicates: 24 * time.Hour, // what a crash leaves owed is published again
			Replicas: l.Replicas, Description: "Every operator decision.",
		},
	}
}

// Ensure makes the streams what they have to be. An existing one is updated; one
// that cannot be is refused with every difference that matters named. None is ever
// deleted and made again.
func Ensure(ctx context.Context, js jetstream.JetStream, want []jetstream.StreamConfig) error {
	var problems []error
	for _, w := range want {
		if _, err := js.CreateOrUpdateStream(ctx, w); err != nil {
			problems = append(problems, fmt.Errorf("stream %s: %w%s", w.Name, err, differences(ctx, js, w)))
		}
	}
	return errors.Join(problems...)
}

func differences(ctx context.Context, js jetstream.JetStream, w jetstream.StreamConfig) string {
	st, err := js.Stream(ctx, w.Name)
	if err != nil {
		return ""
	}
	have := st.CachedInfo().Config
	var d []string
	differ := func(setting string, have, want any) {
		if fmt.Sprint(have) != fmt.Sprint(want) {
			d = append(d, fmt.Sprintf("%s is %v, must be %v", setting, have, want))
		}
	}
	differ("retention", have.Retention, w.Retention)
	differ("discard", have.Discard, w.Discard)
	differ("subjects", have.Subjects, w.Subjects)
	differ("max_msgs_per_subject", have.MaxMsgsPerSubject, w.MaxMsgsPerSubject)
	differ("discard_new_per_subject", have.DiscardNewPerSubject, w.DiscardNewPerSubject)
	differ("allow_msg_schedules", have.AllowMsgSchedules, w.AllowMsgSchedules)
	differ("deny_delete", have.DenyDelete, w.DenyDelete)
	if len(d) == 0 {
		return ""
	}
	slices.Sort(d)
	return "\n  it exists with other settings: " + strings.Join(d, "; ") + "\n  try: move its messages away and remove the stream by hand; Tollgate never deletes one"
}

// durable is the consumer name of a tool on one of its streams.
func durable(lane schemas.Lane, tool string) string {
	return string(lane) + "-" + strings.ReplaceAll(tool, ".", "=2E")
}

// consumerConfig is the one durable of (lane, tool) on the lane's stream or, for
// retries, on the retry stream.
func consumerConfig(s schemas.Subjects, lane schemas.Lane, tool string, retry bool, concurrency int, ackWait time.Duration) jetstream.ConsumerConfig {
	filter := s.Submit(lane, "*", tool)
	if retry {
		filter = s.Retry(lane, "*", "*", tool)
	}
	return jetstream.ConsumerConfig{
		Durable: durable(lane, tool), FilterSubject: filter, AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait,
		MaxDeliver: -1, MaxAckPending: max(1000, 10*concurrency), MaxWaiting: 512,
		Metadata: map[string]string{"tollgate.tool": tool, "tollgate.lane": string(lane)},
	}
}
