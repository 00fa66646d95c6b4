package deadletter

import (
	"cmp"
	"strings"
	"sync/atomic"
	"time"
	"unique"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// entry is one letter in the index: what a list shows and a filter looks at. A hundred
// thousand of them have to be some tens of megabytes, so what many share is held once.
type entry struct {
	seq        uint64
	kind       unique.Handle[kind]
	message    string
	run        unique.Handle[string]
	key        string
	fate       *fate
	older      *entry // of the same call
	origin     uint64 // sequence in the origin's stream
	generation int
	attempts   int
	died       time.Time
	seen       time.Time
	deadline   time.Time
	truncated  bool
	bodyLost   bool
	gone       atomic.Bool // from the stream
}

// Records is the ledger as far as single letters need it.
type Records interface {
	Record(call string) (*dedupe.Record, error)
}

// kind is what letters of one cause have in common.
type kind struct {
	tenant, tool, reason, code, class, fingerprint string
	stream, subject                                string // of the origin
	lane                                           schemas.Lane
	replay                                         string // the bulk replay it died again in
}

// fate is a call that has letters, and what the ledger says of it.
type fate struct {
	call     string
	newest   *entry
	standing atomic.Pointer[dedupe.Standing]
}

func newEntry(l *schemas.Letter) *entry {
	return &entry{
		seq: l.Sequence, message: strings.Clone(l.Message), run: unique.Make(l.Run), key: strings.Clone(l.Key), origin: l.Origin.Sequence,
		kind: unique.Make(kind{tenant: l.Tenant, tool: l.Tool, reason: l.Reason, code: l.Code, class: l.Class, fingerprint: l.Fingerprint,
			stream: l.Origin.Stream, subject: l.Origin.Subject, lane: l.Lane, replay: l.Replay}),
		generation: l.Generation, attempts: l.Attempts, died: l.DiedAt, seen: l.FirstSeen, deadline: l.Deadline, truncated: l.Truncated, bodyLost: l.BodyLost,
	}
}

// letter is what a list shows of it.
func (e *entry) letter() schemas.Letter {
	k := e.kind.Value()
	l := schemas.Letter{
		V: schemas.Version, ID: dedupe.LetterID(e.fate.call, e.generation), Reason: k.reason, Code: k.code, Message: e.message, Class: k.class,
		Fingerprint: k.fingerprint, Tenant: k.tenant, Lane: k.lane, Tool: k.tool, Run: e.run.Value(), Call: e.fate.call, Generation: e.generation, Key: e.key, Replay: k.replay,
		Deadline: e.deadline, FirstSeen: e.seen, DiedAt: e.died, Sequence: e.seq, Attempts: e.attempts, Truncated: e.truncated, BodyLost: e.bodyLost,
		Origin:   schemas.Origin{Stream: k.stream, Subject: k.subject, Sequence: e.origin, Time: e.seen},
		NextStep: NextStep(k.reason, k.code),
	}
	l.State, l.Note = e.state()
	return l
}

func (e *entry) state() (schemas.LetterState, string) {
	return stateOf(e.kind.Value().reason, e.generation, *e.fate.standing.Load())
}

// stateOf is what has become of a letter: the record holds it for its current
// generation; an earlier letter is replaying until the next generation settles.
func stateOf(reason string, generation int, r dedupe.Standing) (state schemas.LetterState, note string) {
	switch {
	case r.State == 0 && reason != schemas.ReasonMalformed && reason != schemas.ReasonRejected:
		return schemas.LetterResolved, "" // a record stays while its letter is active: what is forgotten was dealt with
	case r.State == 0:
		return schemas.LetterActive, "" // a refusal nobody touched
	case r.Generation == generation && r.Letter != "":
		return r.Letter, r.Note
	case r.Generation >= generation && r.State.Terminal(), r.Generation > generation+1: // whose replay died again has another letter
		return schemas.LetterResolved, ""
	case r.Generation > generation:
		return schemas.LetterReplaying, ""
	}
	return schemas.LetterActive, ""
}

// SortKeys are what letters can be sorted by.
var SortKeys = []string{"seq", "died", "tool", "reason", "code", "run", "attempts", "replayed"}

// orderBy returns the order that a sort key asks for, nil for a key that is none.
// Equals stay in the order of their sequences, so that pages fit together.
func orderBy(key string) func(a, b *entry) int {
	name, down := strings.CutPrefix(cmp.Or(key, "-seq"), "-")
	by, ok := map[string]func(a, b *entry) int{
		"seq":      func(_, _ *entry) int { return 0 },
		"died":     func(a, b *entry) int { return a.died.Compare(b.died) },
		"tool":     func(a, b *entry) int { return cmp.Compare(a.kind.Value().tool, b.kind.Value().tool) },
		"reason":   func(a, b *entry) int { return cmp.Compare(a.kind.Value().reason, b.kind.Value().reason) },
		"code":     func(a, b *entry) int { return cmp.Compare(a.kind.Value().code, b.kind.Value().code) },
		"run":      func(a, b *entry) int { return cmp.Compare(a.run.Value(), b.run.Value()) },
		"attempts": func(a, b *entry) int { return cmp.Compare(a.attempts, b.attempts) },
		"replayed": func(a, b *entry) int { return cmp.Compare(a.generation, b.generation) },
	}[name]
	if !ok {
		return nil
	}
	return func(a, b *entry) int {
		c := cmp.Or(by(a, b), cmp.Compare(a.seq, b.seq))
		if down {
			return -c
		}
		return c
	}
}
