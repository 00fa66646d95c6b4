package exec

import (
	"strings"
	"testing"
)

// However an argument of the call looks, it stays inside the one argument of the
// command that names it, and is no option.
func FuzzExpand(f *testing.F) {
	f.Add("--name={/name}", []byte(`{"name":"x; rm -rf /"}`))
	f.Add("{/a/0/b}", []byte(`{"a":[{"b":"-rf"}]}`))
	f.Add("{/}", []byte(`{"":"\u0000"}`))
	f.Add("{/~1~0}", []byte(`{"/~":1e400}`))
	f.Add("{/a", []byte(`{}`))
	f.Add("x{/a}y{/b}", []byte(`{"a":true,"b":null}`))
	f.Fuzz(func(t *testing.T, arg string, arguments []byte) {
		tpl, err := parseTemplate(arg)
		if err != nil {
			return
		}
		list, err := expand([]template{tpl, {prefix: "last"}}, arguments)
		switch {
		case err != nil && tpl.pointer == "":
			t.Errorf("%q takes nothing from the call: %v", arg, err)
		case err != nil:
		case len(list) != 2 || list[1] != "last" || !strings.HasPrefix(list[0], tpl.prefix) || !strings.HasSuffix(list[0], tpl.suffix):
			t.Errorf("%q with %s became %q", arg, arguments, list)
		case tpl.pointer != "" && (tpl.prefix == "" && strings.HasPrefix(list[0], "-") || strings.Contains(strings.TrimPrefix(list[0], tpl.prefix), "\x00") && !strings.Contains(tpl.suffix, "\x00")):
			t.Errorf("%q with %s became %q", arg, arguments, list[0])
		}
	})
}
