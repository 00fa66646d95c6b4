package exec

import (
	"encoding/json"
	"fmt"
	"strings"

	"tollgate/dispatcher/classify"
)

// template is one argument of the command: text around at most one value from the
// call. However the value looks, it stays inside this one argument.
type template struct{ prefix, pointer, suffix string }

func parseTemplate(arg string) (template, error) {
	prefix, rest, found := strings.Cut(arg, "{/")
	if !found {
		return template{prefix: arg}, nil
	}
	pointer, suffix, closed := strings.Cut(rest, "}")
	if !closed || strings.Contains(suffix, "{/") {
		return template{}, fmt.Errorf("exec tool: the argument %q must hold one {/pointer}: close it, and give each value its own argument", arg)
	}
	return template{prefix, "/" + pointer, suffix}, nil
}

// expand fills in the call's values. Its errors are for the model: they name what
// is wrong with its arguments.
func expand(args []template, arguments []byte) ([]string, error) {
	list := make([]string, len(args))
	for i, t := range args {
		if t.pointer == "" {
			list[i] = t.prefix
			continue
		}
		value, err := scalar(arguments, t.pointer)
		switch {
		case err != nil:
			return nil, err
		case t.prefix == "" && strings.HasPrefix(value, "-"):
			return nil, fmt.Errorf("the argument %s must not begin with a dash: the command would take it for an option", t.pointer)
		}
		list[i] = t.prefix + value + t.suffix
	}
	return list, nil
}

func scalar(arguments []byte, pointer string) (string, error) {
	raw, ok := classify.Pointer(arguments, pointer)
	if !ok {
		return "", fmt.Errorf("the argument %s is missing", pointer)
	}
	raw = []byte(strings.TrimSpace(string(raw)))
	switch raw[0] {
	case '{', '[':
		return "", fmt.Errorf("the argument %s must be a string, a number or a boolean", pointer)
	case '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil || strings.Contains(s, "\x00") {
			return "", fmt.Errorf("the argument %s must be a string without zero bytes", pointer)
		}
		return s, nil
	}
	return string(raw), nil
}
