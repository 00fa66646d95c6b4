package control

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/micro"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// verbs is every operator verb and what answers it.
func (s *Server) verbs() map[string]func(micro.Request) {
	return map[string]func(micro.Request){
		VerbStatus:     verb(s, s.status),
		VerbHistory:    verb(s, s.history),
		VerbVerify:     verb(s, func(ctx context.Context, _ Empty, _ string) (VerifyReport, error) { return s.cfg.Verify(ctx) }),
		VerbBackup:     verb(s, s.backup),
		VerbCallsList:  verb(s, s.callsList),
		VerbCallShow:   verb(s, s.callShow),
		VerbRunsList:   verb(s, s.runsList),
		VerbRunShow:    verb(s, s.runShow),
		VerbRunGrant:   verb(s, s.runGrant),
		VerbLetterList: verb(s, s.letterList),
		VerbLetterIDs:  verb(s, s.letterIDs),
		VerbGroups:     verb(s, s.groups),
		VerbStats:      verb(s, s.letterStats),
		VerbLetterShow: verb(s, s.letterShow),
		VerbReplay:     verb(s, s.replay),
		VerbEdit:       verb(s, s.edit),
		VerbResolve:    verb(s, s.resolve),
		VerbDiscard:    verb(s, s.discard),
		VerbRestore:    verb(s, s.restore),
		VerbPurge:      verb(s, s.purge),
		VerbNote:       verb(s, s.note),
		VerbExport:     s.export,
		VerbImport:     s.importLetter,
		VerbAuditList:  verb(s, s.auditList),
		VerbToolsList:  verb(s, s.toolsList),
		VerbToolShow:   verb(s, s.toolShow),
		VerbToolPause:  verb(s, s.toolPause),
		VerbToolResume: verb(s, s.toolResume),
	}
}

func (s *Server) backup(_ context.Context, q BackupQuery, _ string) (BackupReport, error) {
	if q.Path == "" {
		return BackupReport{}, bad("name a path on the dispatcher's machine")
	}
	n, err := s.cfg.Backup(q.Path)
	return BackupReport{Path: q.Path, Bytes: n}, err
}

// letter completes an abbreviated letter ID: <call>[.<generation>], the current
// generation when none is given.
func (s *Server) letter(id string) (string, error) {
	full, err := s.completed(id)
	if err != nil {
		return "", err
	}
	if _, _, err := dedupe.ParseLetterID(full); err != nil {
		return "", bad("%v", err)
	}
	return full, nil
}

// completed is what an abbreviated letter ID begins, whether or not that is one.
func (s *Server) completed(id string) (string, error) {
	call, generation, ok := strings.Cut(id, ".")
	if !strings.HasPrefix(call, "m") || len(call) < 26 {
		full, err := s.call(call)
		if err != nil && ok && len(call) == 26 {
			return id, nil // a letter whose record is gone
		}
		if err != nil {
			return "", err
		}
		call = full
	}
	if ok {
		return call + "." + generation, nil
	}
	r, err := s.cfg.Ledger.Record(call)
	if err != nil {
		return dedupe.LetterID(call, 0), nil // a refusal has no record
	}
	if r.Letter == "" && r.Generation > 0 {
		return dedupe.LetterID(call, r.Generation-1), nil // of the generation before, which was replayed or resolved
	}
	return r.LetterID(), nil
}

// call completes an abbreviated call ID.
func (s *Server) call(prefix string) (string, error) {
	if len(prefix) < 4 {
		return "", bad("%q is too short: give at least four characters of the ID", prefix)
	}
	ids, err := s.cfg.Ledger.Resolve(prefix)
	switch {
	case err != nil:
		return "", err
	case len(ids) == 0:
		return "", fmt.Errorf("call %s is %w", prefix, dedupe.ErrNotFound)
	case len(ids) > 1:
		return "", bad("%q is the beginning of several calls: %s", prefix, strings.Join(ids, ", "))
	}
	return ids[0], nil
}

func (s *Server) letterShow(ctx context.Context, q IDQuery, _ string) (schemas.Letter, error) {
	id, err := s.letter(q.ID)
	if err != nil {
		return schemas.Letter{}, err
	}
	l, err := s.cfg.Letters.Show(ctx, id)
	s.linkLetter(&l)
	s.redactLetter(&l)
	if n := len(l.Arguments); n > maxShown {
		l.Arguments, l.ArgsBytes = strings.ToValidUTF8(l.Arguments[:maxShown], ""), n
	}
	return l, err
}

// maxShown is how much of a letter's body is shown: in JSON a byte may take six,
// and the answer has to fit a message.
const maxShown = 128 << 10

func (s *Server) replay(ctx context.Context, q ReplayQuery, by string) (Done, error) {
	q.By = by
	return s.onLetter(q.ID, func(id string) error { return s.cfg.Letters.Replay(ctx, id, q.ReplayOptions) })
}

func (s *Server) resolve(ctx context.Context, q ResolveQuery, by string) (Done, error) {
	q.By = by
	return s.onLetter(q.ID, func(id string) error { return s.cfg.Letters.Resolve(ctx, id, q.ResolveOptions) })
}

func (s *Server) discard(ctx context.Context, q LetterQuery, by string) (Done, error) {
	return s.onLetter(q.ID, func(id string) error { return s.cfg.Letters.Discard(ctx, id, by, q.Why) })
}

func (s *Server) restore(ctx context.Context, q LetterQuery, by string) (Done, error) {
	return s.onLetter(q.ID, func(id string) error { return s.cfg.Letters.Restore(ctx, id, by, q.Why) })
}

func (s *Server) onLetter(id string, do func(id string) error) (Done, error) {
	full, err := s.letter(id)
	if err == nil {
		err = do(full)
	}
	return Done{ID: full}, err
}

func tenant(t string) string {
	if t == "" {
		return "default"
	}
	return t
}

func (s *Server) runGrant(ctx context.Context, q GrantQuery, by string) (RunDetail, error) {
	switch {
	case q.Attempts < 0 || q.SideEffects < 0 || q.Elapsed < 0:
		return RunDetail{}, bad("a grant only raises limits")
	case q.Attempts == 0 && q.SideEffects == 0 && q.Elapsed == 0:
		return RunDetail{}, bad("say what is granted: attempts, side effects or elapsed time")
	}
	now, known := time.Now(), false
	g := budget.Grant{Attempts: q.Attempts, SideEffects: q.SideEffects, Elapsed: q.Elapsed, By: by, Why: q.Why, At: now}
	audit := dedupe.Audit{At: now, Tenant: tenant(q.Tenant), Action: "grant", Target: "run " + q.Run, By: by, Why: q.Why}
	receipt, err := s.cfg.Ledger.Update(ctx, dedupe.Ref{Tenant: tenant(q.Tenant), Root: schemas.Root(q.Run)}, func(v dedupe.View) dedupe.Change {
		a := audit
		before := limits(v.Run, q.Run)
		if known = v.Run != nil && v.Run.Grant(q.Run, g); !known {
			a.Detail = "there is no such run"
			return dedupe.Change{Audit: []dedupe.Audit{a}}
		}
		v.Run.Used = now
		a.Allowed, a.Before, a.After = true, before, limits(v.Run, q.Run)
		a.Detail = fmt.Sprintf("attempts=%+d side_effects=%+d elapsed=+%s", q.Attempts, q.SideEffects, q.Elapsed)
		return dedupe.Change{Run: v.Run, Audit: []dedupe.Audit{a}}
	})
	s.cfg.Publish(receipt.Audit)
	switch {
	case err != nil:
		return RunDetail{}, err
	case !known:
		return RunDetail{}, fmt.Errorf("run %s of tenant %s is %w", q.Run, tenant(q.Tenant), dedupe.ErrNotFound)
	}
	return s.runShow(ctx, RunQuery{Tenant: q.Tenant, Run: q.Run}, by)
}

// limits are an account's, in words for the audit.
func limits(run *budget.Run, path string) string {
	if run == nil {
		return ""
	}
	a := run.Accounts[path]
	return fmt.Sprintf("attempts %d of %d, side effects %d of %d, until %s", a.Attempts, a.Limits.Attempts, a.Effects, a.Limits.SideEffects, a.Limits.Deadline.UTC().Format(time.RFC3339))
}
