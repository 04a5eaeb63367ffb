package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/termtext"
)

// cellWidth is how many characters of a value a table shows.
const cellWidth = 80

// cell makes a value fit a table: one line, bounded, nothing that steers the terminal.
func cell(text string) string { return termtext.OneLine(termtext.Printable(text), cellWidth) }

// wide is a line of names that may be copied.
func wide(text string) string { return termtext.OneLine(termtext.Printable(text), 500) }

// table prints rows under a header, in columns. What stands in the first is copied into other commands, and so is whole.
func (a *app) table(header string, rows [][]string) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.ReplaceAll(header, " ", "\t"))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, text := range row {
			cells[i] = cell(text)
		}
		if len(row) > 0 {
			cells[0] = wide(row[0])
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// say prints a line of text; what it is made of cannot steer the terminal.
func (a *app) say(format string, args ...any) {
	fmt.Fprintln(a.out, termtext.Printable(fmt.Sprintf(format, args...)))
}

// note prints a line about the output, beside it.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.errOut, termtext.Printable(fmt.Sprintf(format, args...)))
}

// dash stands for an empty value in a table.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// pageSize is how many entries one request asks for.
const pageSize = 1000

// all asks for pages until limit entries are there; 0 is no limit. more is true when there are others.
func all[T any](limit int, fetch func(agent.Page) ([]T, string, error)) (entries []T, more bool, err error) {
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

// list prints the entries of all pages: as JSON, or as rows of a table.
func list[T any](a *app, limit int, header string, row func(*T) []string, fetch func(agent.Page) ([]T, string, error)) error {
	entries, more, err := all(limit, fetch)
	if err != nil {
		return err
	}
	if more {
		defer a.note("… there are more; see --limit")
	}
	if a.output == "json" {
		return a.printJSON(entries)
	}
	rows := make([][]string, len(entries))
	for i := range entries {
		rows[i] = row(&entries[i])
	}
	return a.table(header, rows)
}
