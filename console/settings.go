package console

import "tollgate/control"

var settingsRoutes = map[string]handler{"GET /settings": settings}

// settingsData is what the page of the settings shows.
type settingsData struct {
	control.Settings
	Roles       []control.Role
	Permissions []control.Permission
	Sources     []string
}

// settings shows what the dispatcher runs with, and what whoever looks may do.
func settings(v *visit) error {
	d := settingsData{Roles: control.Roles, Permissions: control.Permissions(), Sources: control.SettingSources}
	q := control.SettingsQuery{Under: v.param("under"), Source: v.param("source")}
	if err := v.ask(control.VerbSettings, q, &d.Settings); err != nil {
		return err
	}
	return v.show("settings", "Settings", d)
}
