package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"text/tabwriter"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"golang.org/x/term"
)

// apiVersion is the version of everything --json prints. Changes only add.
const apiVersion = "tollgate/v1"

// printJSON prints v, which marshals to an object or an array, as one object that
// says what it is. Numbers keep their digits and times are in UTC.
func (s *shell) printJSON(kind string, v any) error {
	body, err := json.Marshal(inUTC(v))
	if err != nil {
		return err
	}
	if len(body) > 0 && body[0] == '[' {
		body = append(append([]byte(`{"items":`), body...), '}')
	}
	head := fmt.Sprintf(`{"apiVersion":%q,"kind":%q`, apiVersion, kind)
	if rest := bytes.TrimSpace(body[1:]); len(rest) > 0 && rest[0] != '}' {
		head += ","
	}
	var out bytes.Buffer
	if err := json.Indent(&out, append([]byte(head), body[1:]...), "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err = s.stdout.Write(out.Bytes())
	return err
}

// some is a list that is never null in JSON.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// inUTC returns a copy of v with every instant in it moved to UTC.
func inUTC(v any) any {
	from := reflect.ValueOf(v)
	if !from.IsValid() {
		return v
	}
	to := reflect.New(from.Type()).Elem()
	to.Set(from)
	moveToUTC(to)
	return to.Interface()
}

var timeType = reflect.TypeFor[time.Time]()

func moveToUTC(v reflect.Value) {
	if v.Type() == timeType {
		v.Set(reflect.ValueOf(v.Interface().(time.Time).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c := reflect.New(v.Type().Elem())
			c.Elem().Set(v.Elem())
			moveToUTC(c.Elem())
			v.Set(c)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				moveToUTC(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.IsNil() || v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(c, v)
		for i := range c.Len() {
			moveToUTC(c.Index(i))
		}
		v.Set(c)
	case reflect.Map:
		if v.IsNil() {
			return
		}
		c := reflect.MakeMapWithSize(v.Type(), v.Len())
		for _, k := range v.MapKeys() {
			e := reflect.New(v.Type().Elem()).Elem()
			e.Set(v.MapIndex(k))
			moveToUTC(e)
			c.SetMapIndex(k, e)
		}
		v.Set(c)
	}
}

// grid is a table: drawn for a terminal, aligned text for everything else.
type grid struct {
	heads []string
	rows  [][]string
}

func (g *grid) add(cells ...string) {
	for i := range cells {
		if cells[i] = oneLine(cells[i]); cells[i] == "" {
			cells[i] = "-"
		}
	}
	g.rows = append(g.rows, cells)
}

func (s *shell) printGrid(g *grid) {
	if !s.outTTY {
		w := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
		for _, row := range append([][]string{g.heads}, g.rows...) {
			for i, cell := range row {
				if i > 0 {
					fmt.Fprint(w, "\t")
				}
				fmt.Fprint(w, cell)
			}
			fmt.Fprintln(w)
		}
		w.Flush()
		return
	}
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	if f, ok := s.stdout.(*os.File); ok {
		style.Size.WidthMax, _, _ = term.GetSize(int(f.Fd())) // 0, which is no limit, where it cannot be told
	}
	t.SetStyle(style)
	t.AppendHeader(toRow(g.heads))
	for _, row := range g.rows {
		t.AppendRow(toRow(row))
	}
	fmt.Fprintln(s.stdout, t.Render())
}

func toRow(cells []string) table.Row {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		row[i] = c
	}
	return row
}

// line prints a line of the answer. What others wrote in it is made safe.
func (s *shell) line(format string, args ...any) {
	fmt.Fprintln(s.stdout, safe(fmt.Sprintf(format, args...)))
}

// paint colours a word where colours are wanted; the word alone says it all.
func (s *shell) paint(color, word string) string {
	if s.color == "never" || s.color == "auto" && (!s.errTTY || s.env("NO_COLOR") != "" || s.env("TOLLGATE_NO_COLOR") != "") {
		return word
	}
	return color + word + "\x1b[0m"
}

const (
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
)
