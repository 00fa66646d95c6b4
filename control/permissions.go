package control

// Permission is what somebody may do, in words, and the least role for it.
type Permission struct {
	Verb  string
	Words string
	Needs Role
}

// words say what each verb is for, in the order in which people look for it.
var words = []struct{ verb, words string }{
	{VerbStatus, "see how the dispatcher is"},
	{VerbHistory, "see how the last day went"},
	{VerbCallsList, "list calls"},
	{VerbCallShow, "look at a call"},
	{VerbCancel, "cancel a call or a run"},
	{VerbLetterList, "list dead letters"},
	{VerbLetterIDs, "find the dead letters that a filter takes"},
	{VerbGroups, "see dead letters by what they died of"},
	{VerbStats, "count dead letters"},
	{VerbLetterShow, "look at a dead letter, what the configuration hides excepted"},
	{VerbReplay, "replay a dead letter"},
	{VerbEdit, "make another call of a dead letter, with other arguments"},
	{VerbResolve, "resolve a dead letter: say whether it happened"},
	{VerbDiscard, "put a dead letter aside"},
	{VerbRestore, "take a dead letter back that was put aside"},
	{VerbNote, "write a note on a dead letter or a group"},
	{VerbPurge, "remove a dead letter for good"},
	{VerbExport, "take a dead letter out whole, with nothing hidden"},
	{VerbImport, "bring a dead letter back"},
	{VerbReplaysList, "list bulk replays"},
	{VerbReplayShow, "look at a bulk replay"},
	{VerbReplayItems, "look at the letters of a bulk replay"},
	{VerbReplaysPlan, "see what a bulk replay would do"},
	{VerbReplaysCreate, "start a bulk replay"},
	{VerbReplayPause, "pause a bulk replay"},
	{VerbReplayResume, "let a bulk replay go on"},
	{VerbReplayCancel, "cancel a bulk replay"},
	{VerbRunsList, "list runs"},
	{VerbRunShow, "look at a run"},
	{VerbRunGrant, "raise the limits of a run"},
	{VerbToolsList, "list tools"},
	{VerbToolShow, "look at a tool"},
	{VerbToolPause, "pause a tool"},
	{VerbToolResume, "let a tool go on"},
	{VerbAuditList, "read what operators decided"},
	{VerbSettings, "read the configuration, secrets masked"},
	{VerbVerify, "check the records against each other"},
	{VerbBackup, "write a copy of the ledger"},
	{VerbConsoleLink, "make a link that signs a browser in"},
}

// Permissions are all that may be asked, and who may ask it.
func Permissions() []Permission {
	all := make([]Permission, len(words))
	for i, w := range words {
		all[i] = Permission{Verb: w.verb, Words: w.words, Needs: Needs(w.verb)}
	}
	return all
}
