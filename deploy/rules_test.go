package deploy_test

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v4"

	"tollgate/internal/metrics"
	"tollgate/schemas"
)

// known is every metric that Tollgate has, whether it has a series now or not.
func known(t *testing.T) map[string]bool {
	t.Helper()
	m := metrics.New(metrics.Config{Read: func(context.Context) metrics.State { return metrics.State{} }})
	descs := make(chan *prometheus.Desc)
	go func() { m.Registry().Describe(descs); close(descs) }()
	names := map[string]bool{}
	for d := range descs {
		name, _, _ := strings.Cut(strings.TrimPrefix(d.String(), `Desc{fqName: "`), `"`)
		names[name] = true
	}
	if !names["tollgate_outcomes_total"] || !names["tollgate_dead_letters"] {
		t.Fatalf("the metrics are not what they were: %v", names)
	}
	return names
}

var ours = regexp.MustCompile(`\btollgate_[a-z_]+`)

// unknown names the metrics in a text that Tollgate does not have.
func unknown(text string, names map[string]bool) []string {
	var bad []string
	for _, name := range ours.FindAllString(text, -1) {
		base := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			base = strings.TrimSuffix(base, suffix)
		}
		if !names[name] && !names[base] {
			bad = append(bad, name)
		}
	}
	return bad
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []rule }
	}
	if err := yaml.Unmarshal([]byte(read(t, "prometheus/alerts.yml")), &file); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 15 {
		t.Fatalf("%d alerts", len(all))
	}
	return all
}

// Whoever is woken finds what it means, what to do and on which metric it stands; and
// every alert has a case in which promtool sees it fire.
func TestEveryAlertLeadsSomewhere(t *testing.T) {
	names, runbook, cases := known(t), read(t, "../docs/OPERATIONS.md"), read(t, "prometheus/alerts_test.yml")
	for _, r := range rules(t) {
		if bad := unknown(r.Expr, names); len(bad) > 0 {
			t.Errorf("%s stands on metrics that do not exist: %v", r.Alert, bad)
		}
		if want := "docs/OPERATIONS.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url is %q, want %q", r.Alert, r.Annotations["runbook_url"], want)
		}
		_, text, found := strings.Cut(runbook, "\n### "+r.Alert+"\n\n")
		paragraph, _, _ := strings.Cut(text, "\n\n")
		if !found || len(paragraph) < 150 {
			t.Errorf("docs/OPERATIONS.md has no paragraph for %s", r.Alert)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.Labels["severity"] != "page" && r.Labels["severity"] != "ticket" {
			t.Errorf("%s says not what it is or how urgent", r.Alert)
		}
		if !strings.Contains(cases, `alertname="`+r.Alert+`"`) {
			t.Errorf("no case of alerts_test.yml lets %s fire", r.Alert)
		}
	}
}

func TestEveryReasonHasAParagraph(t *testing.T) {
	runbook := read(t, "../docs/OPERATIONS.md")
	for _, reason := range schemas.Reasons {
		if !strings.Contains(runbook, "\n**"+reason+"**") {
			t.Errorf("docs/OPERATIONS.md has no paragraph for dead letters of the reason %s", reason)
		}
	}
}

func TestTheDashboardShowsWhatIsThere(t *testing.T) {
	text, names := read(t, "grafana/tollgate.json"), known(t)
	var board struct {
		Panels []struct {
			Title   string
			Type    string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(text), &board); err != nil {
		t.Fatal(err)
	}
	if bad := unknown(text, names); len(bad) > 0 {
		t.Errorf("the dashboard asks for metrics that do not exist: %v", bad)
	}
	for i, p := range board.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, q := range board.Panels[:i] {
			a, b := p.GridPos, q.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("panels %q and %q lie on each other", p.Title, q.Title)
			}
		}
	}
	for name := range names {
		shown := strings.Contains(text, name)
		if strings.HasPrefix(name, "tollgate_") && !shown && name != "tollgate_build_info" {
			t.Logf("not on the dashboard: %s", name)
		}
	}
}

func TestWrongNamesAreFound(t *testing.T) {
	names := map[string]bool{"tollgate_a_total": true, "tollgate_b_seconds": true}
	if bad := unknown("tollgate_a_total / tollgate_b_seconds_bucket + tollgate_c - tollgate_a", names); len(bad) != 2 {
		t.Errorf("found %v, want tollgate_c and tollgate_a", bad)
	}
}
