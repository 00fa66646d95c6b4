package cli

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"tollgate/control"
)

func (s *shell) exportCommand() *cobra.Command {
	var f letterFilter
	var path string
	var zip bool
	c := &cobra.Command{Use: "export [ID... | -]", Short: "Write dead letters to a file, whole", Args: cobra.ArbitraryArgs, ValidArgsFunction: s.completeLetters,
		Long: "Export writes one JSON object a line: the letter's subject, headers and original bytes. Nothing is redacted, since\n" +
			"an import has to give back the same letter: keep the file like the data in it. Nothing is changed or removed.",
		Example: "  tollgate dlq export --all --state all -o letters.jsonl\n  tollgate dlq export --group g-1c04d9a3b2 --gzip -o letters.jsonl.gz",
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.read(s); err != nil {
				return err
			}
			if err := f.names(args, "export"); err != nil {
				return err
			}
			return s.export(c.Context(), args, &f, path, zip)
		}}
	f.flags(c)
	c.Flags().BoolVar(&f.all, "all", false, "all of them: needed when no filter is given")
	c.Flags().StringVarP(&path, "output", "o", "-", "file to write, which must not exist; - is standard output")
	c.Flags().BoolVar(&zip, "gzip", false, "compress it")
	acceptYes(c)
	return c
}

func (s *shell) export(ctx context.Context, args []string, f *letterFilter, path string, zip bool) error {
	ids, err := s.ids(args)
	if err == nil && len(ids) == 0 {
		ids, err = s.frozen(ctx, f.Filter)
	}
	if err != nil {
		return err
	}
	out, end, err := s.target(path, zip)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	var mu sync.Mutex
	b := newBulk(s, "exported", 0)
	b.run(ctx, ids, func(id string) error {
		p, err := s.fetch(ctx, id)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		return lines.Encode(p)
	})
	if err := end(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	switch {
	case b.fatal != nil:
		return b.fatal
	case len(ids) == 1 && len(b.failed) == 1:
		return b.failed[ids[0]]
	}
	s.say("exported %s", count(len(b.done), "dead letter"))
	for id, err := range b.failed { // it went while the export was under way
		s.say("  not %s: %s", id, reasonOf(id, err))
	}
	if len(b.failed) > 0 {
		return told(exitPartial)
	}
	return nil
}

// target opens what an export writes to. A file is made new: an older export is not
// overwritten.
func (s *shell) target(path string, zip bool) (io.Writer, func() error, error) {
	var out io.Writer = s.stdout
	end := func() error { return nil }
	if path != "-" {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, nil, usage("--output: "+err.Error(), "the name of a file that does not exist")
		}
		out, end = f, f.Close
	}
	buffer := bufio.NewWriterSize(out, 64<<10)
	if !zip {
		return buffer, func() error { return errors.Join(buffer.Flush(), end()) }, nil
	}
	z := gzip.NewWriter(buffer)
	return z, func() error { return errors.Join(z.Close(), buffer.Flush(), end()) }, nil
}

// fetch gets one letter as it is stored.
func (s *shell) fetch(ctx context.Context, id string) (control.Parcel, error) {
	c, err := s.control()
	if err != nil {
		return control.Parcel{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return c.Fetch(ctx, id)
}

func (s *shell) importCommand() *cobra.Command {
	var why string
	c := &cobra.Command{Use: "import FILE", Short: "Bring exported dead letters back", Args: exactly(1, "the file of an export, or -"),
		Long: "Import puts letters back that are not in the stream any more: purged ones come back as discarded. Letters that are\n" +
			"there are left as they are, so an import may be repeated. A letter is refused when the ledger contradicts it: another\n" +
			"outcome, other arguments, a replay since then, or a call that the ledger does not know.",
		Example: "  tollgate dlq import letters.jsonl --why 'the purge was a mistake'",
		RunE:    func(c *cobra.Command, args []string) error { return s.bringBack(c.Context(), args[0], why) }}
	c.Flags().StringVar(&why, "why", "", "why, for the audit")
	acceptYes(c)
	return c
}

// importReport is what an import came to.
type importReport struct {
	Read    int               `json:"read"`
	Added   int               `json:"added"`
	There   int               `json:"there"`
	Refused map[string]string `json:"refused,omitempty"` // why, by ID
}

func (s *shell) bringBack(ctx context.Context, path, why string) error {
	in, end, err := s.source(path)
	if err != nil {
		return err
	}
	defer end()
	r := importReport{Refused: map[string]string{}}
	show := s.progress("read", 0)
	defer show.end()
	for {
		var p control.Parcel
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return &fault{code: exitUsage, what: fmt.Sprintf("letter %d of %s cannot be read", r.Read+1, path), why: err.Error(), try: "a file that tollgate dlq export has written"}
		}
		r.Read++
		added, err := s.give(ctx, &p, why)
		switch {
		case err == nil && added:
			r.Added++
		case err == nil:
			r.There++
		case !answered(err):
			return err
		default:
			r.Refused[p.ID] = reasonOf(p.ID, err)
		}
		show.add(err == nil)
	}
	return s.printImport(&r)
}

func (s *shell) printImport(r *importReport) error {
	if s.json {
		if err := s.printJSON("ImportReport", r); err != nil {
			return err
		}
	} else {
		s.line("imported %d of %d; %d were there, %d refused", r.Added, r.Read, r.There, len(r.Refused))
		for id, why := range r.Refused {
			s.line("  not %s: %s", id, why)
		}
	}
	switch {
	case r.Read == 0:
		return &fault{code: exitNotFound, what: "there are no letters in it", try: "a file that tollgate dlq export has written"}
	case len(r.Refused) > 0:
		return told(exitPartial)
	}
	return nil
}

// source opens an export, compressed or not.
func (s *shell) source(path string) (*json.Decoder, func(), error) {
	var in io.Reader = s.stdin
	end := func() {}
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, nil, usage(err.Error(), "the file that tollgate dlq export has written")
		}
		in, end = f, func() { f.Close() }
	}
	buffer := bufio.NewReaderSize(in, 64<<10)
	if magic, err := buffer.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(buffer)
		if err != nil {
			end()
			return nil, nil, usage(path+" is not a whole compressed file", "the file that tollgate dlq export has written")
		}
		return json.NewDecoder(z), end, nil
	}
	return json.NewDecoder(buffer), end, nil
}

// give hands one letter to the dispatcher.
func (s *shell) give(ctx context.Context, p *control.Parcel, why string) (added bool, err error) {
	c, err := s.control()
	if err != nil {
		return false, err
	}
	h, body := p.Unpack()
	h[control.HeaderSubject] = []string{p.Subject}
	if why != "" {
		h[control.HeaderWhy] = []string{oneLine(why)}
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	m, err := c.Send(ctx, control.VerbImport, h, body)
	if err != nil {
		return false, err
	}
	var done control.Imported
	if err := json.Unmarshal(m.Data, &done); err != nil {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	return done.Added, nil
}
