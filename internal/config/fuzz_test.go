package config_test

import (
	"errors"
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
			config.Effective(c)
			c.Warnings()
		case !errors.As(err, &bad) || len(bad.Problems) == 0 || err.Error() == "":
			t.Errorf("got %v without a problem", err)
		}
	})
}
