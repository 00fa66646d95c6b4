package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tollgate/dedupe"
	"tollgate/schemas"
)

func (k *checker) tool(name string, t Tool) {
	path := "tools." + name
	if !schemas.ValidTool(name) {
		k.about(path, "is not a tool's name: want up to 8 segments of [A-Za-z0-9_-]{1,64} joined by dots")
	}
	switch kinds := t.kinds(); len(kinds) {
	case 0:
		k.about(path, "says not how to run it: give it one of http, exec, nats and function")
	case 1:
	default:
		k.about(path, "says more than one way to run it: keep one of %s", strings.Join(kinds, ", "))
	}
	if t.HTTP != nil && t.HTTP.URL != "" {
		k.toolURL(path+".http.url", t.HTTP.URL)
	}
	if t.NATS != nil {
		k.subject(path+".nats.subject", t.NATS.Subject)
	}
	if t.Function != "" && (len(t.Classify) > 0 || len(t.NotExecutedOn) > 0 || t.ErrorAt != "") {
		k.about(path, "classify, not_executed_on and error_at say nothing of a function: it returns its own errors")
	}
	k.safety(path, t)
	k.codes(path, t)
	k.policies(path+".policies.calls", t.Policies.Calls, t)
	if k.where[path+".policies.jobs"].line > 0 {
		k.policies(path+".policies.jobs", t.Policies.Jobs, t)
	}
	k.references(path, name, t)
	k.jobs(path, name, t)
}

// toolURL never repeats the address: it may hold a token.
func (k *checker) toolURL(path, address string) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		k.add(path, "is not an address: want http://… or https://…")
		return
	}
	for _, values := range u.Query() {
		for _, v := range values {
			k.remember(v)
		}
	}
	if password, ok := u.User.Password(); ok {
		k.remember(password)
	}
}

// subject refuses what cannot be published to, and Tollgate's own subjects: a call
// sent there would be stored as another call.
func (k *checker) subject(path, subject string) {
	for token := range strings.SplitSeq(subject, ".") {
		if _, given := k.where[path]; given && (token == "" || strings.ContainsAny(token, " \t\r\n*>")) {
			k.add(path, "%q cannot be published to: want names joined by dots, without wildcards", subject)
			return
		}
	}
	if strings.HasPrefix(subject, k.NATS.Prefix+".") {
		k.add(path, "%s is one of Tollgate's own subjects: the tool must listen on another", subject)
	}
}

func (k *checker) safety(path string, t Tool) {
	switch {
	case t.Effect == string(dedupe.Read) && t.RetrySafety != "":
		k.add(path+".retry_safety", "a read needs none, it may always be repeated; if it changes anything, say effect: write")
	case t.Effect == string(dedupe.Read) && t.KeyRetention > 0:
		k.add(path+".key_retention", "a read needs none, it may always be repeated")
	case t.RetrySafety == string(dedupe.IdempotencyKey) && t.KeyRetention == 0:
		if _, wrong := k.where[path+".key_retention"]; !wrong {
			k.add(path+".retry_safety", "idempotency_key needs key_retention: how long does the tool remember a key?")
		}
	case t.RetrySafety != string(dedupe.IdempotencyKey) && t.KeyRetention > 0:
		k.add(path+".key_retention", "says something only with retry_safety: idempotency_key")
	}
}

func (k *checker) codes(path string, t Tool) {
	for _, code := range slices.Sorted(maps.Keys(t.Classify)) {
		if n, err := strconv.Atoi(code); err != nil || n < 0 || n > 999 {
			k.about(path+".classify."+code, "is not a status or an exit code, such as 529")
		}
	}
	for i, status := range t.NotExecutedOn {
		if status < 1 || status > 999 {
			k.add(fmt.Sprintf("%s.not_executed_on[%d]", path, i), "%d is not a status or an exit code", status)
		}
	}
	if t.ErrorAt != "" && t.ErrorAt[0] != '/' {
		k.add(path+".error_at", "%q is not a JSON pointer: want one such as /error", t.ErrorAt)
	}
	for i, pointer := range t.Redact {
		if pointer != "" && pointer[0] != '/' {
			k.add(fmt.Sprintf("%s.redact[%d]", path, i), "%q is not a JSON pointer: want one such as /card/number", pointer)
		}
	}
}

// policies checks the names a tool gives for one lane; a plain list stands for both.
func (k *checker) policies(path string, list []string, t Tool) {
	if _, split := k.where[path]; !split {
		path = strings.TrimSuffix(path, ".calls")
	}
	for i, policy := range list {
		p, ok := k.Policies[policy]
		at := fmt.Sprintf("%s[%d]", path, i)
		if !ok {
			k.add(at, "the policy %s does not exist%s", policy, didYouMean(policy, slices.Sorted(maps.Keys(k.Policies))))
		}
		if t.KeyRetention > 0 && t.KeyRetention/10*9 < p.MaxDeadline {
			k.warn(at, "a call may last %s, but the tool's key_retention %s is trusted for nine tenths of it only: later attempts are not made", p.MaxDeadline, t.KeyRetention)
		}
	}
}

func (k *checker) references(path, name string, t Tool) {
	if _, ok := k.Dependencies[t.Dependency]; !ok && t.Dependency != "" {
		k.add(path+".dependency", "the dependency %s does not exist%s", t.Dependency, didYouMean(t.Dependency, slices.Sorted(maps.Keys(k.Dependencies))))
	}
	if _, taken := k.Dependencies[name]; taken && t.Dependency == "" {
		k.about(path, "a dependency has the tool's name, but the tool does not name it: write dependency: %s, or rename it", name)
	}
	if t.Reconcile == "" {
		return
	}
	hook, ok := k.Tools[t.Reconcile]
	switch {
	case !ok:
		k.add(path+".reconcile", "the tool %s does not exist%s", t.Reconcile, didYouMean(t.Reconcile, slices.Sorted(maps.Keys(k.Tools))))
	case hook.Effect != string(dedupe.Read):
		k.add(path+".reconcile", "%s is not a read: asking what happened must change nothing", t.Reconcile)
	case t.Effect == string(dedupe.Read):
		k.add(path+".reconcile", "the tool is a read, so there is nothing to reconcile")
	}
}

// jobs warns where a job could owe a retry token that nothing ever deposits.
func (k *checker) jobs(path, name string, t Tool) {
	quota := k.Dependencies[t.Dependency].Quota
	if len(t.Policies.Jobs) > 0 && (quota == nil || quota.Refill == 0) {
		k.warn(path, "takes jobs, but its retry quota has no refill_per_s: while nothing succeeds, an empty quota holds retries until their deadline")
	}
}

func (k *checker) remember(secret string) {
	if len(secret) >= 4 && !slices.Contains(k.secrets, secret) {
		k.secrets = append(k.secrets, secret)
	}
}
