package flat

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var rule = Rule{WarmUp: 5 * time.Minute, Window: 20 * time.Second, Percent: 10, Least: 8 * time.Minute}

// curve samples f every two seconds for half an hour.
func curve(f func(minutes float64) float64) *Table {
	t := NewTable(Series{Name: "x", What: "a thing", Unit: "B"})
	for at := time.Duration(0); at < 30*time.Minute; at += 2 * time.Second {
		t.Add(0, at, f(at.Minutes()))
	}
	return t
}

func TestJudge(t *testing.T) {
	noise := rand.New(rand.NewPCG(1, 2))
	for _, tc := range []struct {
		name string
		f    func(minutes float64) float64
		flat bool
	}{
		{"constant", func(float64) float64 { return 100 }, true},
		{"noise", func(float64) float64 { return 100 + 30*noise.NormFloat64() }, true},
		{"grows in the warm-up only", func(m float64) float64 { return min(m, 5) * 20 }, true},
		{"saw of short lives", func(m float64) float64 { return 50 + 100*(m-float64(int(m))) }, true},
		{"peaks of a fifth of the windows", func(m float64) float64 {
			if int(m*3)%5 == 0 {
				return 100 + 40*m
			}
			return 100
		}, true},
		{"falls", func(m float64) float64 { return 200 - 5*m }, true},
		{"a leak of a quarter in ten minutes", func(m float64) float64 { return 100 + 2.5*m + 10*noise.NormFloat64() }, false},
		{"a leak under the saw", func(m float64) float64 { return 50 + 100*(m-float64(int(m))) + 3*m }, false},
	} {
		v := rule.Judge(curve(tc.f))[0]
		if !v.Judged || v.Flat != tc.flat {
			t.Errorf("%s: %v", tc.name, v)
		}
	}
}

func TestWhatIsNotJudged(t *testing.T) {
	leak := curve(func(m float64) float64 { return 100 * m })
	leak.Series[0].Free = true
	if v := rule.Judge(leak)[0]; v.Judged || !v.Flat {
		t.Errorf("free to grow: %v", v)
	}
	leak.Series[0].Free, leak.Series[0].Slack = false, 1e9
	if v := rule.Judge(leak)[0]; !v.Judged || !v.Flat {
		t.Errorf("within the slack: %v", v)
	}
	ended := rule
	ended.Until = 20 * time.Minute
	late := curve(func(m float64) float64 { return 100 + 1e6*max(0, m-20) })
	if v := ended.Judge(late)[0]; !v.Judged || !v.Flat {
		t.Errorf("grows after the end of the load only: %v", v)
	}
	if v := rule.Judge(late)[0]; v.Flat {
		t.Errorf("grows in the last third: %v", v)
	}
	long := rule
	long.Least = time.Hour
	if v := long.Judge(leak)[0]; v.Judged {
		t.Errorf("too short: %v", v)
	}
	if v := rule.Judge(NewTable(Series{Name: "x"}))[0]; !v.Judged || v.Flat {
		t.Errorf("never measured: %v", v)
	}
}

func TestSlopeIgnoresAThirdOfBadPoints(t *testing.T) {
	var points []Point
	for i := range 30 {
		p := Point{At: time.Duration(i) * time.Second, Value: 2 * float64(i)}
		if i%3 == 0 {
			p.Value = 1e6
		}
		points = append(points, p)
	}
	if s := Slope(points); s < 1.9 || s > 2.1 {
		t.Errorf("slope %v, want 2", s)
	}
}

func TestPictureIsWellFormedAndTellsAll(t *testing.T) {
	table := curve(func(m float64) float64 { return 1 << 20 * m })
	table.Events = []Event{{At: time.Minute, Kind: "killed"}, {At: 2 * time.Minute, Until: 3 * time.Minute, Kind: "disk <full>"}, {At: 1, Kind: "other"}}
	var b bytes.Buffer
	if err := (Plot{Title: "A & B", Rule: rule, Kinds: []Kind{{"killed", "#c00"}, {"disk <full>", "#00c"}}}).Write(&b, table); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for d := xml.NewDecoder(&b); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"A &amp; B", "a thing", "grows", "killed (1)", "disk &lt;full&gt; (1)", "MiB", "25:00"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the picture", want)
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "http:") && strings.Count(text, "http:") > 1 {
		t.Error("the picture has numbers that are none, or needs something else")
	}
}

func TestCSV(t *testing.T) {
	table := NewTable(Series{Name: "rss"})
	table.Add(0, 1500*time.Millisecond, 42)
	table.Events = []Event{{At: 2 * time.Second, Until: 4 * time.Second, Kind: "full"}}
	var b bytes.Buffer
	if err := table.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	if want := "seconds,what,value\n1.5,rss,42\n2.0,event: full,2.0\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
