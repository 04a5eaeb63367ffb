package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/cmdline"
)

const (
	pageSize     = 1000 // entries of one request
	defaultLimit = 1000 // entries of a list without --limit
	cellWidth    = 80   // characters of a value in a table
	nameWidth    = 500  // characters of a value that may be copied
)

// moreText is the note about a list that was cut.
const moreText = "… there are more; see --limit"

// listing says how a list command prints its entries.
type listing[T any] struct {
	header     string
	row        func(*T) []string
	limit      int    // default of --limit; 0: defaultLimit
	limitUsage string // of --limit; empty: the usual one
	fetch      func(ctx context.Context, c *client.Client, args []string, p agent.Page) ([]T, string, error)
	print      func(entries []T) error // in place of header and row
}

// listCommand makes cmd a command with the flag --limit that prints the entries of all pages. It takes no arguments unless cmd says so.
func listCommand[T any](a *app, cmd *cobra.Command, l listing[T]) *cobra.Command {
	if cmd.Args == nil {
		cmd.Args = cobra.NoArgs
	}
	limit := cmp.Or(l.limit, defaultLimit)
	limitFlag(cmd, &limit, cmp.Or(l.limitUsage, "at most so many; 0: all"))
	cmd.RunE = a.send(func(ctx context.Context, c *client.Client, args []string) error {
		entries, more, err := fetchAll(limit, func(p agent.Page) ([]T, string, error) { return l.fetch(ctx, c, args, p) })
		if err != nil {
			return err
		}
		if more {
			defer a.printNote(moreText)
		}
		return a.print(entries, func() error {
			if l.print != nil {
				return l.print(entries)
			}
			return printTable(a, l.header, l.row, entries)
		})
	})
	return cmd
}

// limitFlag adds the flag --limit, which refuses negative values before the command runs.
func limitFlag(cmd *cobra.Command, limit *int, usage string) {
	cmd.Flags().IntVar(limit, "limit", *limit, usage)
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if check != nil {
			if err := check(cmd, args); err != nil {
				return err
			}
		}
		return requireMin("limit", *limit, 0)
	}
}

// fetchAll asks for pages until limit entries are there; 0 is no limit. more reports whether there are others.
func fetchAll[T any](limit int, fetch func(agent.Page) ([]T, string, error)) (entries []T, more bool, err error) {
	entries = []T{}
	page := agent.Page{Size: pageSize}
	for {
		if limit > 0 {
			page.Size = min(pageSize, limit-len(entries))
		}
		part, next, err := fetch(page)
		if err != nil {
			return nil, false, err
		}
		entries = append(entries, part...)
		switch {
		case next == "":
			return entries, false, nil
		case limit > 0 && len(entries) >= limit:
			return entries[:limit], true, nil
		case next == page.Token:
			return nil, false, agent.Errorf(agent.CodeInternal, "", "the server goes on with the same page again and again")
		}
		page.Token = next
	}
}

// readPosition returns the position that the token of a page names, 0 for the first page.
func readPosition(p agent.Page) (int64, error) {
	if p.Token == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(p.Token, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("page %q: %w", p.Token, err)
	}
	return n, nil
}

// printTable prints entries as the rows of a table.
func printTable[T any](a *app, header string, row func(*T) []string, entries []T) error {
	rows := make([][]string, len(entries))
	for i := range entries {
		rows[i] = row(&entries[i])
	}
	return a.table(header, rows)
}

// table prints rows under a header, in columns. The first column is copied into other commands, and so is not cut.
func (a *app) table(header string, rows [][]string) error {
	w := tabwriter.NewWriter(a.out, 0, 0, columnGap, ' ', 0)
	lines := [][]string{strings.Fields(header)}
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, text := range row {
			cells[i] = cell(text)
		}
		if len(row) > 0 {
			cells[0] = clipName(row[0])
		}
		lines = append(lines, cells)
	}
	fitColumns(lines, a.width)
	for _, cells := range lines {
		fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// cell returns a value that fits a table: one bounded line that cannot steer the terminal.
func cell(text string) string { return cmdline.OneLine(cmdline.Printable(text), cellWidth) }

// clipName returns one line of names that may be copied.
func clipName(text string) string { return cmdline.OneLine(cmdline.Printable(text), nameWidth) }

// dash returns "-" for an empty value of a table.
func dash(text string) string { return cmp.Or(text, "-") }

// decimal returns a number as text.
func decimal[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// revisionText returns a revision as text; what is not stored has none.
func revisionText(revision int64) string {
	if revision == 0 {
		return "-"
	}
	return decimal(revision)
}

// moment returns a time as text, "-" for none.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// momentOr returns a time as text, or fallback for none.
func momentOr(t *time.Time, fallback string) string {
	if t == nil {
		return fallback
	}
	return moment(*t)
}

// count returns a number with its noun: "1 fault", "2 faults".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// printLine prints a line of text that cannot steer the terminal.
func (a *app) printLine(format string, args ...any) {
	fmt.Fprintln(a.out, cmdline.Printable(fmt.Sprintf(format, args...)))
}

// printNote prints a line about the output on standard error.
func (a *app) printNote(format string, args ...any) {
	fmt.Fprintln(a.errOut, cmdline.Printable(a.named(fmt.Sprintf(format, args...))))
}

// fact prints a name and its value on one line; nothing if the value is empty.
func (a *app) fact(name, value string) {
	if value != "" {
		a.printLine("%-9s%s", name, clipName(value))
	}
}
