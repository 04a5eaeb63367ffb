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

const resultNameHelp = "A result is named by its reference (artifact:// or cas://), its own id, the id of its turn, or the id of its job."

func (a *app) resultsCommand() *cobra.Command {
	return commandGroup(&cobra.Command{
		Use: "results", Short: "Stored results: look at them, take their rows out",
		Example: `  starter results get turn-42
  starter results export turn-42 --format csv -o flights.csv`,
	}, a.resultsGetCommand(), a.resultsExportCommand())
}

func (a *app) resultsGetCommand() *cobra.Command {
	format := "text"
	cmd := &cobra.Command{
		Use: "get <reference or id>", Short: "Show a result: what it is, its first rows, its text", Args: cobra.ExactArgs(1),
		Long: resultNameHelp + `

--output text shows it; json and yaml are what GET /v1/turns/{id} answers; raw is the stored document as it is, of any size. Of content
without a turn (cas://) they show the first rows.`,
		Example: `  starter results get turn-42
  starter results get artifact://7f1c… -o yaml
  starter results get turn-42 -o raw | jq .blocks`,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			if err := requireOneOf("output", format, "text, json, yaml or raw"); err != nil {
				return err
			}
			return a.printStoredResult(ctx, c, args[0], format)
		}),
	}
	cmd.Flags().StringVarP(&format, "output", "o", format, "text, json, yaml or raw") // replaces the persistent flag
	return cmd
}

func (a *app) printStoredResult(ctx context.Context, c *client.Client, ref, format string) error {
	v, err := c.Result(ctx, ref)
	if err != nil {
		return err
	}
	defer v.Body.Close() //nolint:errcheck // read-only
	if format == "raw" {
		if _, err := io.Copy(a.out, v.Body); err != nil {
			return fmt.Errorf("read result %s: %w", ref, err)
		}
		return nil
	}
	if v.TurnID == "" {
		return a.printContent(ctx, c, v.Ref, format)
	}
	t, err := c.Turn(ctx, v.TurnID)
	switch {
	case err != nil:
		return err
	case t.Output == nil:
		return agent.Errorf(agent.CodeNotFound, "", "turn %s has not ended", v.TurnID)
	case format != "text":
		return a.printAs(format, t.Output)
	}
	a.printTurn(t.Output)
	return nil
}

// printAs prints a value as json or yaml.
func (a *app) printAs(format string, v any) error {
	if format == "json" {
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
	a.printText(out.Output)
}

// printText prints the text of an answer below other output, if there is a text.
func (a *app) printText(text string) {
	if text != "" {
		a.printLine("\n%s", strings.TrimRight(text, "\n"))
	}
}

// printOutcome prints how a turn ended.
func (a *app) printOutcome(out *agent.AgentStepOutput) {
	a.printField("result", out.ResultRef)
	a.printField("turn", string(out.TurnID))
	a.printField("session", string(out.SessionID))
	name := out.AgentInstanceID
	if out.Model != "" {
		name = strings.TrimSpace(name + " on " + out.Model)
	}
	a.printField("agent", name)
	a.printField("status", fmt.Sprintf("%s (%s) after %s", out.Status, out.StopReason, time.Duration(out.ExecutionTimeMS)*time.Millisecond))
	if out.Error != nil {
		a.printField("error", out.Error.Type+": "+out.Error.Message)
	}
	a.printUsageFacts(&out.Usage)
}

func (a *app) printUsageFacts(u *agent.Usage) {
	tokens := fmt.Sprintf("%d in (%d cached), %d out", u.InputTokens, u.CachedTokens, u.OutputTokens)
	if u.Estimated {
		tokens += ", estimated"
	}
	a.printField("tokens", tokens)
	a.printField("cost", costText(u))
}

func (a *app) printToolCall(name, status string, cached bool, ref string) {
	line := name + " " + status
	if cached {
		line += ", cached"
	}
	a.printField("tool", strings.TrimSpace(line+" "+ref))
}

// previewRows is the largest number of rows of content that are printed.
const previewRows = 10

// printPreview prints the preview of a result: the number of its rows, and the first ones as a table.
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
		title = formatInt(*p.RowCount) + " rows"
		if more := *p.RowCount - int64(len(p.Sample)); more > 0 && len(p.Sample) > 0 {
			title += fmt.Sprintf(", the first %d", len(p.Sample))
		}
	}
	a.printLine("\n%s:", title)
	a.printJSONRows(p.Sample)
}

// maxColumns is the largest number of columns of a table of JSON rows.
const maxColumns = 12

// printJSONRows prints JSON objects as a table with a column for each of their members. If a row is not an object, it prints each row on a line.
func (a *app) printJSONRows(rows []json.RawMessage) {
	var columns []string
	cells := make([]map[string]string, len(rows))
	for i, row := range rows {
		names, values, ok := objectMembers(row)
		if !ok {
			for _, row := range rows {
				a.printLine("%s", clipCell(string(row)))
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
		header[i] = cmp.Or(strings.ReplaceAll(clipCell(name), " ", "_"), "_")
	}
	if err := a.printRows(strings.Join(header, " "), table); err != nil {
		a.printNote("%v", err)
	}
	if hidden > 0 {
		a.printNote("… and %s", quantity(hidden, "column"))
	}
}

// objectMembers returns the member names of a JSON object in their order, and the values by name, as text. ok is false if row is not an object.
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

// maxRow is the largest size in bytes of a row that is printed.
const maxRow = 1 << 20

// printContent prints the first rows of content that is not the result of one turn.
func (a *app) printContent(ctx context.Context, c *client.Client, ref, format string) error {
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
	lines.Buffer(nil, maxRow)
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
	if format != "text" {
		return a.printAs(format, struct {
			Ref    string            `json:"ref"`
			Sample []json.RawMessage `json:"sample"`
			More   bool              `json:"more"` // there are rows after the sample
		}{ref, sample, more})
	}
	a.printField("content", ref)
	a.printLine("")
	a.printJSONRows(sample)
	if more {
		a.printNote("… and more; see starter results export")
	}
	return nil
}
