package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

const whichResult = "A result is named by its reference (artifact:// or cas://), its own id, the id of its turn, or the id of its job."

func (a *app) resultsCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "results", Short: "Stored results: look at them, take their rows out",
		Example: `  starter results get turn-42
  starter results export turn-42 --format csv -o flights.csv`,
	}, a.resultsGetCommand(), a.resultsExportCommand())
}

func (a *app) resultsGetCommand() *cobra.Command {
	form := "text"
	cmd := &cobra.Command{
		Use: "get <reference or id>", Short: "Show a result: what it is, its first rows, its text", Args: cobra.ExactArgs(1),
		Long: whichResult + `

--output text shows it; json and yaml are what GET /v1/turns/{id} answers; raw is the stored document as it is, of any size. Of content
without a turn (cas://) they show the first rows.`,
		Example: `  starter results get turn-42
  starter results get artifact://7f1c… -o yaml
  starter results get turn-42 -o raw | jq .blocks`,
		RunE: a.send(func(ctx context.Context, c *client.Client, args []string) error {
			if !slices.Contains([]string{"text", "json", "yaml", "raw"}, form) {
				return usageError{fmt.Errorf("--output is %q, want text, json, yaml or raw", form)}
			}
			return a.showResult(ctx, c, args[0], form)
		}),
	}
	cmd.Flags().StringVarP(&form, "output", "o", form, "text, json, yaml or raw") // in place of everybody's
	return cmd
}

func (a *app) showResult(ctx context.Context, c *client.Client, ref, form string) error {
	v, err := c.Result(ctx, ref)
	if err != nil {
		return err
	}
	defer v.Body.Close() //nolint:errcheck // read-only
	if form == "raw" {
		if _, err := io.Copy(a.out, v.Body); err != nil {
			return fmt.Errorf("read result %s: %w", ref, err)
		}
		return nil
	}
	if v.TurnID == "" {
		return a.showContent(ctx, c, v.Ref, form)
	}
	t, err := c.Turn(ctx, v.TurnID)
	switch {
	case err != nil:
		return err
	case t.Output == nil:
		return agent.Errorf(agent.CodeNotFound, "", "turn %s has not ended", v.TurnID)
	case form != "text":
		return a.printAs(form, t.Output)
	}
	a.printTurn(t.Output)
	return nil
}

// printAs prints a value as JSON or YAML.
func (a *app) printAs(form string, v any) error {
	if form == "json" {
		return a.printJSON(v)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return a.printYAML(raw)
}

func (a *app) printTurn(out *agent.AgentStepOutput) {
	a.printOutcome(out)
	for i := range out.ToolCalls {
		call := &out.ToolCalls[i]
		a.printToolCall(call.Tool, call.Status, call.CacheHit, call.Ref)
	}
	a.printPreview(out.ResultPreview)
	if out.Output != "" {
		a.printLine("\n%s", strings.TrimRight(out.Output, "\n"))
	}
}

// printOutcome prints how a turn ended.
func (a *app) printOutcome(out *agent.AgentStepOutput) {
	a.fact("result", out.ResultRef)
	a.fact("turn", string(out.TurnID))
	a.fact("session", string(out.SessionID))
	name := out.AgentInstanceID
	if out.Model != "" {
		name = strings.TrimSpace(name + " on " + out.Model)
	}
	a.fact("agent", name)
	a.fact("status", fmt.Sprintf("%s (%s) after %s", out.Status, out.StopReason, time.Duration(out.ExecutionTimeMS)*time.Millisecond))
	if out.Error != nil {
		a.fact("error", out.Error.Type+": "+out.Error.Message)
	}
	a.printUsageFacts(&out.Usage)
}

func (a *app) printUsageFacts(u *agent.Usage) {
	tokens := fmt.Sprintf("%d in (%d cached), %d out", u.InputTokens, u.CachedTokens, u.OutputTokens)
	if u.Estimated {
		tokens += ", estimated"
	}
	a.fact("tokens", tokens)
	a.fact("cost", costText(u))
}

func (a *app) printToolCall(name, status string, cached bool, ref string) {
	line := name + " " + status
	if cached {
		line += ", cached"
	}
	a.fact("tool", strings.TrimSpace(line+" "+ref))
}

// previewRows is the number of rows of content that are shown.
const previewRows = 10

// printPreview prints the rows that a result carries of its data.
func (a *app) printPreview(raw json.RawMessage) {
	var p struct {
		Type     string            `json:"type"`
		RowCount *int64            `json:"row_count"`
		Sample   []json.RawMessage `json:"sample"`
	}
	if json.Unmarshal(raw, &p) != nil || (p.RowCount == nil && len(p.Sample) == 0) {
		return
	}
	title := "rows"
	if p.RowCount != nil {
		title = decimal(*p.RowCount) + " rows"
		if more := *p.RowCount - int64(len(p.Sample)); more > 0 && len(p.Sample) > 0 {
			title += fmt.Sprintf(", the first %d", len(p.Sample))
		}
	}
	a.printLine("\n%s:", title)
	a.printRows(p.Sample)
}

// maxColumns is how many columns of rows a table shows.
const maxColumns = 12

// printRows prints rows as a table whose columns are the members of all of them. Rows that are no objects are printed one a line.
func (a *app) printRows(rows []json.RawMessage) {
	var columns []string
	cells := make([]map[string]string, len(rows))
	for i, row := range rows {
		names, values, ok := objectMembers(row)
		if !ok {
			for _, row := range rows {
				a.printLine("%s", cell(string(row)))
			}
			return
		}
		cells[i] = values
		for _, name := range names {
			if !slices.Contains(columns, name) {
				columns = append(columns, name)
			}
		}
	}
	if len(columns) == 0 {
		return
	}
	hidden := max(len(columns)-maxColumns, 0)
	columns = columns[:len(columns)-hidden]
	table := make([][]string, len(rows))
	for i := range cells {
		for _, name := range columns {
			table[i] = append(table[i], cells[i][name])
		}
	}
	header := make([]string, len(columns))
	for i, name := range columns {
		header[i] = cmp.Or(strings.ReplaceAll(cell(name), " ", "_"), "_")
	}
	if err := a.table(strings.Join(header, " "), table); err != nil {
		a.printNote("%v", err)
	}
	if hidden > 0 {
		a.printNote("… and %s", count(hidden, "column"))
	}
}

// objectMembers returns the names of an object in their order, and its values as text. ok is false if row is no object.
func objectMembers(row json.RawMessage) (names []string, values map[string]string, ok bool) {
	d := json.NewDecoder(bytes.NewReader(row))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, false
	}
	values = map[string]string{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, nil, false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, nil, false
		}
		text := string(value)
		var s string
		switch {
		case text == "null":
			text = ""
		case json.Unmarshal(value, &s) == nil:
			text = s
		}
		names = append(names, fmt.Sprint(name))
		values[fmt.Sprint(name)] = text
	}
	return names, values, true
}

// maxPreview bounds what is read of content to show its first rows.
const maxPreview = 1 << 20

// showContent shows the first rows of content that belongs to no single turn.
func (a *app) showContent(ctx context.Context, c *client.Client, ref, form string) error {
	body, err := c.Data(ctx, ref, client.Export{Format: "ndjson"})
	if err != nil {
		if agent.CodeOf(err) == agent.CodeInvalid {
			return fmt.Errorf("%w (--output raw prints it as it is)", err)
		}
		return err
	}
	defer body.Close() //nolint:errcheck // read-only
	sample := []json.RawMessage{}
	more := false
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxPreview)
	for !more && lines.Scan() {
		if more = len(sample) == previewRows; !more {
			sample = append(sample, bytes.Clone(lines.Bytes()))
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		more = true
	} else if err != nil {
		return err
	}
	if form != "text" {
		return a.printAs(form, struct {
			Ref    string            `json:"ref"`
			Sample []json.RawMessage `json:"sample"`
			More   bool              `json:"more"` // rows behind the sample
		}{ref, sample, more})
	}
	a.fact("content", ref)
	a.printLine("")
	a.printRows(sample)
	if more {
		a.printNote("… and more; see starter results export")
	}
	return nil
}
