package cli

import (
	"github.com/spf13/cobra"

	"tollgate/control"
)

func (s *shell) settingsCommand() *cobra.Command {
	var q control.SettingsQuery
	c := &cobra.Command{Use: "settings", Short: "The configuration a dispatcher runs with, and where each value comes from", Args: none,
		Long: "What the running dispatcher holds, defaults included and secrets masked. tollgate config check --effective says the\n" +
			"same of a file; this is what was read at the start.",
		Example: "  tollgate settings\n  tollgate settings --under tools.crm.upsert\n  tollgate settings --source environment --json",
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := ask[control.Settings](c.Context(), s, control.VerbSettings, q)
			if err != nil {
				return err
			}
			if s.json {
				p.Values = some(p.Values)
				return s.printJSON("Settings", p)
			}
			g := &grid{heads: []string{"SETTING", "VALUE", "SOURCE", "WHERE"}}
			for _, v := range p.Values {
				g.add(v.Path, clip(oneLine(v.Value), 80), v.Source, v.Where)
			}
			s.printGrid(g)
			s.say("%s, read from %s", count(len(p.Values), "value"), p.File)
			return nil
		}}
	c.Flags().StringVar(&q.Under, "under", "", "only this setting and what is below it, such as ledger or tools.crm.upsert")
	c.Flags().StringVar(&q.Source, "source", "", "only what comes from there: default, file, environment, secret-file")
	complete(c, "source", control.SettingSources...)
	return c
}
