package cli

import (
	"cmp"
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
		Long: resultNameHelp + `

The rows are streamed, so there may be any number of them. A file is there when all of them are in it, and not before: what was there
stays until then. The format is that of --format, or of the file's name, or JSON.`,
		Example: `  starter results export turn-42 --format csv > flights.csv
  starter results export turn-42 -o flights.ndjson
  starter results export cas://sha256:… --format csv --spreadsheet -o for-excel.csv`,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			e.Format = cmp.Or(e.Format, formatByName(file))
			if err := requireOneOf("format", e.Format, "json, csv or ndjson"); err != nil {
				return err
			}
			if e.Spreadsheet && e.Format != "csv" {
				return usageError{errors.New("--spreadsheet is for --format csv")}
			}
			return a.export(ctx, c, args[0], e, file)
		}),
	}
	cmd.Flags().StringVarP(&e.Format, "format", "f", "", "json, csv or ndjson")
	cmd.Flags().BoolVar(&e.Spreadsheet, "spreadsheet", false, "CSV: put a quote before text that a spreadsheet would run as a formula")
	cmd.Flags().StringVarP(&file, "output", "o", "", "file to write (default: standard output)") // replaces the persistent flag
	return cmd
}

// formatByName returns the format for the extension of a file's name.
func formatByName(name string) string {
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
	p := &progressReader{source: body}
	if a.errIsTerminal && (file != "" || !a.outIsTerminal) { // not on the terminal that shows the rows
		p.terminal = a.errOut
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
	a.printNote("%s: %s", clipName(file), formatBytes(p.bytesRead))
	return nil
}

// progressInterval is the time between two updates of a progress line.
const progressInterval = 250 * time.Millisecond

// progressReader is a reader that shows on a terminal how many bytes were read.
type progressReader struct {
	source    io.Reader
	terminal  io.Writer // nil: show nothing
	bytesRead int64
	updated   time.Time // time of the last update; zero if the terminal shows no line
}

// Read implements [io.Reader].
func (p *progressReader) Read(b []byte) (int, error) {
	n, err := p.source.Read(b)
	p.bytesRead += int64(n)
	if p.terminal != nil && time.Since(p.updated) >= progressInterval {
		p.updated = time.Now()
		fmt.Fprintf(p.terminal, "\r\x1b[K%s", formatBytes(p.bytesRead))
	}
	return n, err
}

// clear removes the progress line and shows no other.
func (p *progressReader) clear() {
	if !p.updated.IsZero() {
		fmt.Fprint(p.terminal, "\r\x1b[K")
	}
	p.terminal, p.updated = nil, time.Time{}
}

// formatBytes returns a number of bytes with its unit, such as "1.5 MB".
func formatBytes(n int64) string {
	units := []string{"kB", "MB", "GB", "TB"}
	if n < 1000 {
		return quantity(int(n), "byte")
	}
	v := float64(n) / 1000
	for len(units) > 1 && v >= 999.95 {
		v /= 1000
		units = units[1:]
	}
	return fmt.Sprintf("%.1f %s", v, units[0])
}
