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
	pageSize     = 1000 // largest number of entries in a response
	defaultLimit = 1000 // default of --limit
	cellWidth    = 80   // largest width of a table cell in characters
	nameWidth    = 500  // largest width of a name, which people copy, in characters
)

// moreText is the note below a list that --limit cut.
const moreText = "… there are more; see --limit"

// fetchFunc requests one page of a list for the arguments of a command. It returns the entries and the token of the next page.
type fetchFunc[T any] func(ctx context.Context, c *client.Client, args []string, p agent.Page) ([]T, string, error)

// listing configures a command that prints a list. It has either header and row or print.
type listing[T any] struct {
	fetch      fetchFunc[T]
	header     string
	row        func(*T) []string
	print      func(entries []T) error
	limit      int    // default of --limit; 0: defaultLimit
	limitUsage string // description of --limit; empty: the usual one
}

// listCommand returns cmd as a command that prints the entries of all pages, up to the flag --limit. It takes no arguments unless cmd.Args is set.
func listCommand[T any](a *app, cmd *cobra.Command, l listing[T]) *cobra.Command {
	if cmd.Args == nil {
		cmd.Args = cobra.NoArgs
	}
	limit := cmp.Or(l.limit, defaultLimit)
	limitFlag(cmd, &limit, cmp.Or(l.limitUsage, "at most so many; 0: all"))
	cmd.RunE = a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
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

// limitFlag adds the flag --limit and, before the command runs, refuses a negative value.
func limitFlag(cmd *cobra.Command, limit *int, usage string) {
	cmd.Flags().IntVar(limit, "limit", *limit, usage)
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if check != nil {
			if err := check(cmd, args); err != nil {
				return err
			}
		}
		return refuseNegative("limit", *limit, 0)
	}
}

// fetchAll calls fetch for one page after the other and returns up to limit entries, or all with limit 0. more reports whether there are others.
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

// readPosition returns the position in the token of a page, or 0 for the first page.
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

// printTable prints a table with a row for each entry.
func printTable[T any](a *app, header string, row func(*T) []string, entries []T) error {
	rows := make([][]string, len(entries))
	for i := range entries {
		rows[i] = row(&entries[i])
	}
	return a.printRows(header, rows)
}

// printRows prints a table. header has the column names, separated by spaces. It does not shorten the first column, which people copy into other
// commands.
func (a *app) printRows(header string, rows [][]string) error {
	lines := [][]string{strings.Fields(header)}
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, text := range row {
			cells[i] = clipCell(text)
		}
		if len(row) > 0 {
			cells[0] = clipName(row[0])
		}
		lines = append(lines, cells)
	}
	fitColumns(lines, a.width)
	return a.printColumns(lines)
}

// printColumns prints lines of cells in columns.
func (a *app) printColumns(lines [][]string) error {
	w := tabwriter.NewWriter(a.out, 0, 0, columnGap, ' ', 0)
	for _, cells := range lines {
		fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// clipCell returns text as one line of at most cellWidth characters, without control characters.
func clipCell(text string) string { return cmdline.OneLine(cmdline.Printable(text), cellWidth) }

// clipName returns text as one line of at most nameWidth characters, without control characters.
func clipName(text string) string { return cmdline.OneLine(cmdline.Printable(text), nameWidth) }

// orDash returns text, or "-" if it is empty.
func orDash(text string) string { return cmp.Or(text, "-") }

// formatInt returns n in decimal.
func formatInt[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// formatRevision returns a revision in decimal, or "-" for 0, which is that of documents that are not stored.
func formatRevision(revision int64) string {
	if revision == 0 {
		return "-"
	}
	return formatInt(revision)
}

// formatTime returns a time in UTC, or "-" for the zero time.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// formatTimeOr returns a time in UTC, or fallback for nil.
func formatTimeOr(t *time.Time, fallback string) string {
	if t == nil {
		return fallback
	}
	return formatTime(*t)
}

// quantity returns a number with its noun: "1 fault", "2 faults".
func quantity(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// printLine prints a line on standard output, without control characters.
func (a *app) printLine(format string, args ...any) {
	fmt.Fprintln(a.out, cmdline.Printable(fmt.Sprintf(format, args...)))
}

// printNote prints a line on standard error, without control characters and with the name of this program.
func (a *app) printNote(format string, args ...any) {
	fmt.Fprintln(a.errOut, cmdline.Printable(a.renameProgram(fmt.Sprintf(format, args...))))
}

// printField prints a name and its value on one line. It prints nothing if the value is empty.
func (a *app) printField(name, value string) {
	if value != "" {
		a.printLine("%-9s%s", name, clipName(value))
	}
}
