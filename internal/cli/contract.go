package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"tollgate/control"
	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/dispatcher/classify"
	"tollgate/internal/config"
	"tollgate/internal/demo"
	"tollgate/schemas"
	toolnats "tollgate/tools/nats"
)

// contract is the tests of one tool against the running dispatcher. Each check
// uses the call of the first, so that the tool is asked as seldom as possible.
type contract struct {
	*shell
	tool    string
	detail  control.ToolDetail
	args    []byte
	badArgs string
	config  *config.Config

	runPath, key string
	first        *schemas.Outcome
	failed       string // the call that should have succeeded
}

func (k *contract) run(ctx context.Context) ([]contractCheck, error) {
	k.runPath = "check-" + rand.Text()[:12]
	k.key = k.runPath + ":1"
	var out []contractCheck
	for _, c := range []struct {
		name string
		do   func(context.Context) (result, detail string, err error)
	}{
		{"a call succeeds", k.succeeds},
		{"the same key again is answered without running", k.repeats},
		{"the same key with other arguments is refused", k.conflicts},
		{"arguments against the schema go back for repair", k.repairs},
		{"a second delivery with the same key gives the same result", k.deliversTwice},
	} {
		result, detail, err := c.do(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, contractCheck{Name: c.name, Result: result, Detail: detail})
		if k.first == nil {
			return out, nil // without a first call there is nothing to compare with
		}
	}
	return out, nil
}

func (k *contract) call(ctx context.Context, key string, body []byte) (*schemas.Outcome, error) {
	return k.outcomeOf(ctx, submission{tool: k.tool, run: k.runPath, key: key, body: body, attempts: -1, effects: -1})
}

func (k *contract) succeeds(ctx context.Context) (string, string, error) {
	o, err := k.call(ctx, k.key, k.args)
	if err != nil {
		return "", "", err
	}
	if o.Status != schemas.Succeeded {
		k.failed = o.Call
		detail := string(o.Status) + suffix(" ", o.Code()) + suffix(": ", resultText(o))
		if o.Error != nil && o.Error.LastFailure != nil {
			last := o.Error.LastFailure
			detail += "; last failure " + last.Code + suffix(": ", last.Message)
		}
		return checkFailed, detail + suffix("; call ", o.Call), nil
	}
	k.first = o
	return checkOK, count(len(o.Attempts), "attempt"), nil
}

func (k *contract) repeats(ctx context.Context) (string, string, error) {
	o, err := k.call(ctx, k.key, k.args)
	switch {
	case err != nil:
		return "", "", err
	case !o.Repeated || o.ID != k.first.ID || len(o.Attempts) != len(k.first.Attempts):
		return checkFailed, fmt.Sprintf("the answer is %s with %s, not the stored outcome", o.Status, count(len(o.Attempts), "attempt")), nil
	}
	return checkOK, "", nil
}

func (k *contract) conflicts(ctx context.Context) (string, string, error) {
	o, err := k.call(ctx, k.key, withMember(k.args, k.runPath))
	switch {
	case err != nil:
		return "", "", err
	case o.Code() != schemas.CodeKeyConflict:
		return checkFailed, "the answer is " + string(o.Status) + suffix(" ", o.Code()) + ", not KEY_CONFLICT", nil
	}
	return checkOK, "", nil
}

func (k *contract) repairs(ctx context.Context) (string, string, error) {
	bad := []byte(k.badArgs)
	if k.badArgs == "" {
		bad = violation(k.detail.Schema, k.args, k.runPath)
	}
	switch {
	case len(k.detail.Schema) == 0:
		return notChecked, "the tool has no schema", nil
	case bad == nil:
		return notChecked, "no violation could be made from the schema; give one with --bad-args", nil
	}
	o, err := k.call(ctx, k.runPath+":bad", bad)
	switch {
	case err != nil:
		return "", "", err
	case o.Status != schemas.Repair || len(o.Attempts) > 0:
		return checkFailed, fmt.Sprintf("%s was answered %s with %s", bad, o.Status, count(len(o.Attempts), "attempt")), nil
	}
	return checkOK, "", nil
}

// deliversTwice sends the tool the first call's request once more, past the
// dispatcher, which would never do so after a success: as after a lost answer.
func (k *contract) deliversTwice(ctx context.Context) (string, string, error) {
	switch {
	case k.detail.Effect == dedupe.Read:
		return notChecked, "a read may be repeated anyhow", nil
	case k.detail.Safety == dedupe.Never:
		return notChecked, "the tool says that it must not be repeated", nil
	case k.config == nil:
		return notChecked, "needs the dispatcher's configuration: -c tollgate.yaml", nil
	}
	catalogue, err := k.config.Build(config.BuildDeps{Functions: demo.Functions(), NATS: func(subject string, rules classify.Rules, maxResult int64) (dispatcher.Executor, error) {
		return toolnats.New(toolnats.Spec{Conn: k.nc, Subject: subject, Rules: rules, MaxResult: maxResult})
	}})
	if err != nil {
		return "", "", err
	}
	tool, ok := catalogue.Tool(k.tool)
	if !ok {
		return notChecked, "the configuration has no tool of that name", nil
	}
	call, err := ask[control.CallDetail](ctx, k.shell, control.VerbCallShow, control.IDQuery{ID: k.first.Call})
	if err != nil {
		return "", "", err
	}
	ctx, cancel := context.WithTimeout(ctx, call.Terms.Timeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	v := tool.Executor.Execute(ctx, dispatcher.Invocation{Tool: k.tool, Tenant: k.first.Tenant, Run: k.runPath, Call: k.first.Call, Key: call.DownstreamKey,
		Attempt: len(k.first.Attempts) + 1, Deadline: deadline.Add(-time.Millisecond), Arguments: k.args})
	return k.compare(v)
}

func (k *contract) compare(v classify.Verdict) (string, string, error) {
	first, second := resultText(k.first), resultText(&schemas.Outcome{Content: v.Content, Structured: v.Structured})
	switch {
	case !v.OK():
		return checkFailed, "the second delivery failed" + suffix(": ", v.Code) + suffix(" ", v.Message), nil
	case !sameJSON(first, second):
		return checkFailed, fmt.Sprintf("the second delivery gave another result: first %s, then %s", clip(first, 120), clip(second, 120)), nil
	}
	return checkOK, "", nil
}

// sameJSON compares results, whatever the order of their members.
func sameJSON(a, b string) bool {
	ca, errA := dedupe.Canonical([]byte(a))
	cb, errB := dedupe.Canonical([]byte(b))
	return a == b || errA == nil && errB == nil && bytes.Equal(ca, cb)
}

// withMember returns the object with one member more, which no tool knows.
func withMember(object []byte, name string) []byte {
	body := bytes.TrimSpace(object)
	comma := ","
	if len(bytes.TrimSpace(body[1:len(body)-1])) == 0 {
		comma = ""
	}
	return fmt.Appendf(nil, "%s%s%q:true}", body[:len(body)-1], comma, name)
}

// violation makes arguments that surely break the schema, or nil. An uncertain one
// would be a call of the tool that nobody wanted.
func violation(schema, args []byte, name string) []byte {
	var s struct {
		Required   []string                   `json:"required"`
		Additional json.RawMessage            `json:"additionalProperties"`
		Patterns   map[string]json.RawMessage `json:"patternProperties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	switch {
	case len(s.Required) > 0:
		return []byte("{}")
	case string(s.Additional) == "false" && len(s.Patterns) == 0:
		return withMember(args, name)
	}
	return nil
}
