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
	return &cobra.Command{Use: "init [FILE]", Short: "Write an example configuration", Args: between(0, 1, "a file"),
		RunE: func(_ *cobra.Command, args []string) error {
			path := defaultConfig
			if len(args) == 1 {
				path = args[0]
			}
			if path == "-" {
				_, err := s.stdout.Write(config.Example())
				return err
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
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
			s.next("tollgate config check -c "+path, "tollgate serve -c "+path)
			return nil
		}}
}

func (s *shell) configCheckCommand() *cobra.Command {
	var path string
	var effective bool
	c := &cobra.Command{Use: "check", Short: "The verdict of a start, and the worst each tool may cost", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
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
	c.Flags().StringVarP(&path, "config", "c", defaultConfig, "the file")
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
	Kind        string `json:"kind"`
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
	s.next("tollgate serve -c " + path)
	return nil
}

func (s *shell) configSchemaCommand() *cobra.Command {
	return &cobra.Command{Use: "schema", Short: "The JSON Schema of the configuration file, for editors", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := s.stdout.Write(config.Schema())
			return err
		}}
}
