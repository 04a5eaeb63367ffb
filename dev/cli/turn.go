package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	enumspb "go.temporal.io/api/enums/v1"
	"google.golang.org/protobuf/proto"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/cmdline"
)

// runTurn runs one turn through the HTTP API. It prints the events as they come, and then the result and the history of the workflow.
func (inst *instance) runTurn(ctx context.Context, w io.Writer, prompt string) error {
	c, err := inst.client()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n> %s\n\n", prompt)
	receipt, err := c.Start(ctx, agent.TurnRequest{Message: prompt})
	if err != nil {
		return err
	}
	var out *agent.AgentStepOutput
	printer := cmdline.NewTurnPrinter(w, w)
	for e, err := range c.Follow(ctx, receipt.TurnID, 0) {
		if err != nil {
			return err
		}
		printer.Show(&e)
		if e.Terminal() {
			out = e.Result
		}
	}
	if out == nil {
		return fmt.Errorf("the stream of turn %s ended without a result", receipt.TurnID)
	}
	fmt.Fprintf(w, "\nresult    %s (%s, %s)\n", out.ResultRef, out.Status, out.StopReason)
	if len(out.ResultPreview) > 0 {
		fmt.Fprintf(w, "preview   %s\n", out.ResultPreview)
	}
	fmt.Fprintf(w, "usage     %d tokens in, %d out, %d ms\n", out.Usage.InputTokens, out.Usage.OutputTokens, out.ExecutionTimeMS)
	if err := inst.printHistory(ctx, w, receipt.TurnID); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nWeb UI    %s/namespaces/%s/workflows/%s\n", inst.stack.Temporal.UIURL(), inst.settings.Temporal.Namespace,
		"turn%2F"+string(receipt.TurnID))
	if out.Status != agent.TurnCompleted {
		return fmt.Errorf("the turn is %s: %s", out.Status, out.StopReason)
	}
	return nil
}

// printHistory prints the history of a turn's workflow.
func (inst *instance) printHistory(ctx context.Context, w io.Writer, id agent.TurnID) error {
	temporal := inst.service.Temporal()
	if err := temporal.GetWorkflow(ctx, id.WorkflowID(), "").Get(ctx, nil); err != nil {
		return fmt.Errorf("wait for the workflow: %w", err)
	}
	fmt.Fprintln(w, "\nhistory")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	events, bytes := 0, 0
	it := temporal.GetWorkflowHistory(ctx, id.WorkflowID(), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return fmt.Errorf("read history: %w", err)
		}
		events++
		bytes += proto.Size(e)
		name := e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName()
		if name == "" && e.GetEventType() == enumspb.EVENT_TYPE_MARKER_RECORDED {
			name = "local activity"
		}
		fmt.Fprintf(table, "  %d\t%s\t%s\n", e.GetEventId(), e.GetEventType(), name)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "  %d events, %d bytes\n", events, bytes)
	return nil
}
