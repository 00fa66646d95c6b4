package cli

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"tollgate/internal/config"
)

// defaultConfig is the file that is meant when none is named.
const defaultConfig = "tollgate.yaml"

func (s *shell) configCommand() *cobra.Command {
	return group("config", "The configuration file: write, check, describe", s.configInitCommand(), s.configCheckCommand(), s.configSchemaCommand())
}

func (s *shell) configInitCommand() *cobra.Command {
	return &cobra.Command{Use: "init [FILE | -]", Short: "Write an example configuration", Args: between(0, 1, "a file"),
		Long: "Writes " + defaultConfig + ", or FILE. A file that has something in it is left alone. With -, and where standard\n" +
			"output is sent to a file and none is named, the example goes there.",
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && args[0] != "-":
				return s.initConfig(args[0])
			case len(args) == 1 || isRegular(s.stdout):
				_, err := s.stdout.Write(config.Example())
				return err
			}
			return s.initConfig(defaultConfig)
		}}
}

// isRegular tells whether a shell has sent a stream to a file.
func isRegular(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

func (s *shell) initConfig(path string) error {
	f, err := createEmpty(path)
	if errors.Is(err, os.ErrExist) {
		return &fault{code: exitConflict, what: path + " exists; nothing was written", try: "another name, or - for standard output"}
	}
	if err != nil {
		return err
	}
	_, err = f.Write(config.Example())
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	s.say("wrote %s: example policies and tools; put your own in their place", path)
	s.next("tollgate config check "+path, "tollgate serve "+path)
	return nil
}

// createEmpty opens a file that is not there, or is there and empty: a shell makes
// one for its redirection before the command runs.
func createEmpty(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if !errors.Is(err, os.ErrExist) {
		return f, err
	}
	if info, statErr := os.Stat(path); statErr != nil || !info.Mode().IsRegular() || info.Size() > 0 {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
}

// configFlag is -c, and configFile the file that is meant: -c or the argument.
func configFlag(c *cobra.Command) {
	c.Flags().StringP("config", "c", defaultConfig, "the configuration file; it may also be named without -c")
}

func configFile(c *cobra.Command, args []string) (string, error) {
	f := c.Flags().Lookup("config")
	if len(args) == 0 {
		return f.Value.String(), nil
	}
	if f.Changed && f.Value.String() != args[0] {
		return "", usage("two files are named: "+quoted(f.Value.String())+" and "+quoted(args[0]), c.UseLine())
	}
	return args[0], nil
}

func (s *shell) configCheckCommand() *cobra.Command {
	var effective bool
	c := &cobra.Command{Use: "check [FILE]", Short: "The verdict of a start, and the worst each tool may cost", Args: between(0, 1, "a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := configFile(cmd, args)
			if err != nil {
				return err
			}
			c, err := s.loadConfig(path)
			if err == nil {
				err = s.showProblems(path, c.Verify(nil))
			}
			if err != nil {
				return err
			}
			if effective {
				_, err := s.stdout.Write(config.Effective(c))
				return err
			}
			return s.printCheck(path, c)
		}}
	configFlag(c)
	c.Flags().BoolVar(&effective, "effective", false, "print it as it holds, defaults included and secrets masked")
	return c
}

// loadConfig reads a file. Every problem and every warning is shown at its place.
func (s *shell) loadConfig(path string) (*config.Config, error) {
	c, err := config.Load(path)
	if err := s.showProblems(path, err); err != nil {
		return nil, err
	}
	for _, w := range c.Warnings() {
		s.say("%s", safe(w.String()))
	}
	return c, nil
}

// showProblems prints what is wrong with a file, a line each, and sums it up.
func (s *shell) showProblems(path string, err error) error {
	var broken *config.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &broken):
		return &fault{code: exitUsage, what: err.Error(), cause: err}
	case s.json:
		return err
	}
	for _, p := range broken.Problems {
		fmt.Fprintln(s.stderr, safe(p.String()))
	}
	return &fault{code: exitUsage, what: fmt.Sprintf("%s has %s", path, count(len(broken.Problems), "problem")), try: "tollgate config schema describes every key"}
}

// toolCost is what one tool may cost under one policy, for programs.
type toolCost struct {
	Tool        string `json:"tool"`
	Kind        string `json:"executor"`
	Effect      string `json:"effect"`
	RetrySafety string `json:"retry_safety,omitempty"`
	Dependency  string `json:"dependency"`
	Lane        string `json:"lane"`
	Policy      string `json:"policy"`
	Attempts    int    `json:"attempts"`
	Timeout     string `json:"timeout"`
	WorstTime   string `json:"worst_time"`
	MaxDeadline string `json:"max_deadline"`
}

func (s *shell) printCheck(path string, c *config.Config) error {
	tools := config.Check(c)
	if s.json {
		costs := []toolCost{}
		for _, t := range tools {
			for _, p := range t.Policies {
				costs = append(costs, toolCost{t.Tool, t.Kind, t.Effect, t.Safety, t.Dependency, string(p.Lane), p.Name, p.Attempts, p.Timeout.String(), p.WorstTime.String(), p.MaxDeadline.String()})
			}
		}
		return s.printJSON("ConfigCheck", costs)
	}
	g := &grid{heads: []string{"TOOL", "KIND", "EFFECT", "RETRY SAFETY", "LANE", "POLICY", "ATTEMPTS", "TIMEOUT", "WORST TIME"}}
	for _, t := range tools {
		for _, p := range t.Policies {
			g.add(t.Tool, t.Kind, t.Effect, t.Safety, string(p.Lane), p.Name, strconv.Itoa(p.Attempts), p.Timeout.String(), p.WorstTime.String())
		}
	}
	s.printGrid(g)
	s.say("%s: ok, %s", path, count(len(tools), "tool"))
	s.next("tollgate serve " + path)
	return nil
}

func (s *shell) configSchemaCommand() *cobra.Command {
	return &cobra.Command{Use: "schema", Short: "The JSON Schema of the configuration file, for editors", Args: none,
		RunE: func(*cobra.Command, []string) error {
			_, err := s.stdout.Write(config.Schema())
			return err
		}}
}
