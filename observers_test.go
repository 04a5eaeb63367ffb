package turnstone

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

type place struct{}

// told is an observer that writes what it hears, and where, to a list that it shares.
type told struct {
	name  string
	trace string
	lines *[]string
}

func (o told) say(ctx context.Context, word string) {
	where, _ := ctx.Value(place{}).(string)
	*o.lines = append(*o.lines, where+o.name+" "+word)
}

func (o told) enter(ctx context.Context) context.Context {
	where, _ := ctx.Value(place{}).(string)
	return context.WithValue(ctx, place{}, where+o.name+">")
}

func (o told) Carry(context.Context) string { return o.trace }

func (o told) Delegate(_ context.Context, _ *agent.Observed, child agent.TurnID) string {
	if o.trace == "" {
		return ""
	}
	return o.trace + "/" + string(child)
}

func (o told) Work(ctx context.Context, _ agent.Work) (context.Context, func(error)) {
	o.say(ctx, "work")
	return o.enter(ctx), func(error) { o.say(ctx, "worked") }
}

func (o told) Request(ctx context.Context, _ agent.ModelObservation) (context.Context, func(agent.ModelOutcome)) {
	o.say(ctx, "request")
	return o.enter(ctx), func(agent.ModelOutcome) { o.say(ctx, "reply") }
}

func (o told) Tool(ctx context.Context, _ agent.ToolObservation) (context.Context, func(agent.ToolOutcome)) {
	o.say(ctx, "tool")
	return o.enter(ctx), func(agent.ToolOutcome) { o.say(ctx, "result") }
}

func (o told) Decided(ctx context.Context, _ *agent.Observed, _ *agent.Approval) {
	o.say(ctx, "decided")
}

func (o told) Ended(ctx context.Context, _ agent.TurnEnded) { o.say(ctx, "ended") }

func TestEveryObserverIsCalled(t *testing.T) {
	var lines []string
	both := observers{told{name: "a", lines: &lines}, told{name: "b", trace: "00", lines: &lines}}
	require.Equal(t, "00", both.Carry(t.Context()))
	require.Equal(t, "00/c", both.Delegate(t.Context(), nil, "c"))
	ctx, worked := both.Work(t.Context(), agent.Work{})
	_, replied := both.Request(ctx, agent.ModelObservation{})
	replied(agent.ModelOutcome{})
	_, result := both.Tool(ctx, agent.ToolObservation{})
	result(agent.ToolOutcome{})
	both.Decided(ctx, nil, nil)
	worked(nil)
	both.Ended(t.Context(), agent.TurnEnded{})
	require.Equal(t, []string{
		"a work", "a>b work",
		"a>b>a request", "a>b>a>b request", "a>b>a>b reply", "a>b>a reply",
		"a>b>a tool", "a>b>a>b tool", "a>b>a>b result", "a>b>a result",
		"a>b>a decided", "a>b>b decided",
		"a>b worked", "a worked",
		"a ended", "b ended",
	}, lines)
}
