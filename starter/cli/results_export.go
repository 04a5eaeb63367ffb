package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/client"
)

func (a *app) resultsExportCommand() *cobra.Command {
	var e client.Export
	var file string
	cmd := &cobra.Command{
		Use: "export <reference or id>", Short: "Write the rows of a result as JSON, CSV or NDJSON", Args: cobra.ExactArgs(1),
		Long: whichResult + `

The rows are streamed, so there may be any number of them. A file is there when all of them are in it, and not before: what was there
stays until then. The format is that of --format, or of the file's name, or JSON.`,
		Example: `  starter results export turn-42 --format csv > flights.csv
  starter results export turn-42 -o flights.ndjson
  starter results export cas://sha256:… --format csv --spreadsheet -o for-excel.csv`,
		RunE: a.send(func(ctx context.Context, c *client.Client, args []string) error {
			if e.Format == "" {
				e.Format = formatOfName(file)
			}
			switch e.Format {
			case "json", "csv", "ndjson":
			default:
				return usageError{fmt.Errorf("--format is %q, want json, csv or ndjson", e.Format)}
			}
			if e.Spreadsheet && e.Format != "csv" {
				return usageError{errors.New("--spreadsheet is for --format csv")}
			}
			return a.export(ctx, c, args[0], e, file)
		}),
	}
	cmd.Flags().StringVarP(&e.Format, "format", "f", "", "json, csv or ndjson")
	cmd.Flags().BoolVar(&e.Spreadsheet, "spreadsheet", false, "CSV: put a quote before text that a spreadsheet would run as a formula")
	cmd.Flags().StringVarP(&file, "output", "o", "", "file to write (default: standard output)") // in place of everybody's
	return cmd
}

// formatOfName is the format that a file's name asks for.
func formatOfName(name string) string {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".csv":
		return "csv"
	case ".ndjson", ".jsonl":
		return "ndjson"
	default:
		return "json"
	}
}

func (a *app) export(ctx context.Context, c *client.Client, ref string, e client.Export, file string) error {
	body, err := c.Data(ctx, ref, e)
	if err != nil {
		return err
	}
	defer body.Close() //nolint:errcheck // read-only
	p := &progress{from: body}
	if a.terminals[1] && (file != "" || !a.terminals[0]) { // else it would be among the rows
		p.to = a.errOut
	}
	defer p.clear()
	if file == "" || file == "-" {
		if _, err := io.Copy(a.out, p); err != nil {
			return fmt.Errorf("export %s: %w", ref, err)
		}
		return nil
	}
	err = saveFile(file, func(w io.Writer) error {
		_, err := io.Copy(w, p)
		return err
	})
	p.clear()
	if err != nil {
		return fmt.Errorf("export %s: %w", ref, err)
	}
	a.printNote("%s: %s", clipName(file), size(p.read))
	return nil
}

// progressEvery is how often a line of progress changes.
const progressEvery = 250 * time.Millisecond

// progress is a reader that shows how much was read of it.
type progress struct {
	from  io.Reader
	to    io.Writer // a terminal; nil: nobody watches
	read  int64
	shown time.Time // when the line was written last; zero: there is none
}

// Read implements [io.Reader].
func (p *progress) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	p.read += int64(n)
	if p.to != nil && time.Since(p.shown) >= progressEvery {
		p.shown = time.Now()
		fmt.Fprintf(p.to, "\r\x1b[K%s", size(p.read))
	}
	return n, err
}

// clear takes the line away.
func (p *progress) clear() {
	if !p.shown.IsZero() {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
	p.to, p.shown = nil, time.Time{}
}

// size is a number of bytes for a person.
func size(n int64) string {
	units := []string{"kB", "MB", "GB", "TB"}
	if n < 1000 {
		return count(int(n), "byte")
	}
	v := float64(n) / 1000
	for len(units) > 1 && v >= 999.95 {
		v /= 1000
		units = units[1:]
	}
	return fmt.Sprintf("%.1f %s", v, units[0])
}
