package config_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"tollgate/internal/config"
)

// Whatever the file, the parser answers: a configuration that can be summarised and
// printed, or problems. It never panics.
func FuzzParse(f *testing.F) {
	for _, file := range []string{minimal, string(config.Example()), rich, withSecrets()} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		c, err := config.Parse("f", file, secretEnv)
		var bad *config.Error
		switch {
		case err == nil:
			config.Check(c)
			c.Warnings()
			noLeak(t, file, string(config.Effective(c)))
		case !errors.As(err, &bad) || len(bad.Problems) == 0 || err.Error() == "":
			t.Errorf("got %v without a problem", err)
		default:
			noLeak(t, file, err.Error())
		}
	})
}

// noLeak: B93, a secret of the environment is shown only if the file spells it out.
func noLeak(t *testing.T, file []byte, shown string) {
	t.Helper()
	for _, secret := range []string{"k-88-api", "p-66-nats"} {
		if strings.Contains(shown, secret) && !bytes.Contains(file, []byte(secret)) {
			t.Errorf("shows %s: %s", secret, shown)
		}
	}
}
