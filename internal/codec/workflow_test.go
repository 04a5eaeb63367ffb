package codec_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/turnstone-run/turnstone/internal/codec"
)

func silent() log.Logger { return log.NewStructuredLogger(slog.New(slog.DiscardHandler)) }

func greet(name string) (string, error) { return "Hello, " + name, nil }

// greeting asks an activity, then waits for a word.
func greeting(ctx workflow.Context, name string) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	var text string
	if err := workflow.ExecuteActivity(ctx, greet, name).Get(ctx, &text); err != nil {
		return "", err
	}
	var word string
	workflow.GetSignalChannel(ctx, "word").Receive(ctx, &word)
	return text + " " + word, nil
}

// spy notes what passes through a converter.
type spy struct {
	converter.DataConverter

	seen *[]*commonpb.Payload
}

func (s spy) ToPayloads(v ...any) (*commonpb.Payloads, error) {
	p, err := s.DataConverter.ToPayloads(v...)
	*s.seen = append(*s.seen, p.GetPayloads()...)
	return p, err
}

func TestWorkflow(t *testing.T) {
	text, _ := key(t, "one")
	c := open(t, codec.Config{Keys: ring(t, text)})
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(silent())
	env := suite.NewTestWorkflowEnvironment()
	var seen []*commonpb.Payload
	env.SetDataConverter(spy{c.Data(), &seen})
	env.SetFailureConverter(c.Failures())
	env.RegisterWorkflow(greeting)
	env.RegisterActivity(greet)
	env.RegisterDelayedCallback(func() { env.SignalWorkflow("word", "secret") }, time.Second)
	env.ExecuteWorkflow(greeting, "Ann")
	require.NoError(t, env.GetWorkflowError())
	var got string
	require.NoError(t, env.GetWorkflowResult(&got))
	require.Equal(t, "Hello, Ann secret", got)
	require.NotEmpty(t, seen)
	for _, p := range seen {
		require.Equal(t, "binary/encrypted", string(p.GetMetadata()["encoding"]))
	}
}

func event(id int64, kind enumspb.EventType, with func(e *historypb.HistoryEvent)) *historypb.HistoryEvent {
	e := &historypb.HistoryEvent{EventId: id, EventType: kind}
	with(e)
	return e
}

// history is that of a run of greeting, up to the task in which it takes its signal.
func history(args, result, signal *commonpb.Payload) *historypb.History {
	one := func(p *commonpb.Payload) *commonpb.Payloads {
		return &commonpb.Payloads{Payloads: []*commonpb.Payload{p}}
	}
	queue := &taskqueuepb.TaskQueue{Name: "q", Kind: enumspb.TASK_QUEUE_KIND_NORMAL}
	scheduled := func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_WorkflowTaskScheduledEventAttributes{
			WorkflowTaskScheduledEventAttributes: &historypb.WorkflowTaskScheduledEventAttributes{TaskQueue: queue, Attempt: 1},
		}
	}
	started := func(scheduled int64) func(e *historypb.HistoryEvent) {
		return func(e *historypb.HistoryEvent) {
			e.Attributes = &historypb.HistoryEvent_WorkflowTaskStartedEventAttributes{
				WorkflowTaskStartedEventAttributes: &historypb.WorkflowTaskStartedEventAttributes{ScheduledEventId: scheduled},
			}
		}
	}
	completed := func(scheduled, started int64) func(e *historypb.HistoryEvent) {
		return func(e *historypb.HistoryEvent) {
			e.Attributes = &historypb.HistoryEvent_WorkflowTaskCompletedEventAttributes{
				WorkflowTaskCompletedEventAttributes: &historypb.WorkflowTaskCompletedEventAttributes{ScheduledEventId: scheduled, StartedEventId: started},
			}
		}
	}
	return &historypb.History{Events: []*historypb.HistoryEvent{
		event(1, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, func(e *historypb.HistoryEvent) {
			e.Attributes = &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{
				WorkflowExecutionStartedEventAttributes: &historypb.WorkflowExecutionStartedEventAttributes{
					WorkflowType: &commonpb.WorkflowType{Name: "greeting"}, TaskQueue: queue, Input: one(args),
					WorkflowTaskTimeout: durationpb.New(10 * time.Second), OriginalExecutionRunId: "run", FirstExecutionRunId: "run",
				},
			}
		}),
		event(2, enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, scheduled),
		event(3, enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED, started(2)),
		event(4, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, completed(2, 3)),
		event(5, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, func(e *historypb.HistoryEvent) {
			e.Attributes = &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{
				ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{
					ActivityId: "5", ActivityType: &commonpb.ActivityType{Name: "greet"}, TaskQueue: queue, WorkflowTaskCompletedEventId: 4,
				},
			}
		}),
		event(6, enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED, func(e *historypb.HistoryEvent) {
			e.Attributes = &historypb.HistoryEvent_ActivityTaskStartedEventAttributes{
				ActivityTaskStartedEventAttributes: &historypb.ActivityTaskStartedEventAttributes{ScheduledEventId: 5},
			}
		}),
		event(7, enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED, func(e *historypb.HistoryEvent) {
			e.Attributes = &historypb.HistoryEvent_ActivityTaskCompletedEventAttributes{
				ActivityTaskCompletedEventAttributes: &historypb.ActivityTaskCompletedEventAttributes{ScheduledEventId: 5, StartedEventId: 6, Result: one(result)},
			}
		}),
		event(8, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, func(e *historypb.HistoryEvent) {
			e.Attributes = &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
				WorkflowExecutionSignaledEventAttributes: &historypb.WorkflowExecutionSignaledEventAttributes{SignalName: "word", Input: one(signal)},
			}
		}),
		event(9, enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, scheduled),
		event(10, enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED, started(9)),
		event(11, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, completed(9, 10)),
		event(12, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, func(e *historypb.HistoryEvent) {
			e.Attributes = &historypb.HistoryEvent_WorkflowExecutionCompletedEventAttributes{
				WorkflowExecutionCompletedEventAttributes: &historypb.WorkflowExecutionCompletedEventAttributes{WorkflowTaskCompletedEventId: 11},
			}
		}),
	}}
}

func replay(t *testing.T, c *codec.Codec, h *historypb.History) error {
	t.Helper()
	r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
		DataConverter: c.Data(), FailureConverter: c.Failures(), ExternalStorage: c.Storage(),
	})
	require.NoError(t, err)
	r.RegisterWorkflow(greeting)
	return r.ReplayWorkflowHistory(silent(), h)
}

// TestReplay replays histories of every kind with one codec: plain, encrypted, stored elsewhere, and all at once.
func TestReplay(t *testing.T) {
	text, _ := key(t, "one")
	keys := ring(t, text)
	c := open(t, codec.Config{Keys: keys, Objects: newObjects(), Threshold: 100})
	plain := []*commonpb.Payload{payload(t, "Ann"), payload(t, "Hello, Ann"), payload(t, "word")}
	sealed, err := keys.Encode(plain)
	require.NoError(t, err)
	ref := referenceTo(t, c, sealed[1], "turnstone")
	require.NoError(t, replay(t, c, history(plain[0], plain[1], plain[2])))
	require.NoError(t, replay(t, c, history(sealed[0], sealed[1], sealed[2])))
	require.NoError(t, replay(t, c, history(plain[0], ref, sealed[2])))
	require.Error(t, replay(t, open(t, codec.Config{Keys: keys}), history(plain[0], ref, sealed[2])), "without the store")
	require.Error(t, replay(t, open(t, codec.Config{}), history(sealed[0], sealed[1], sealed[2])), "without the keys")
}

// TestMissingKeyFailsTheTask: whichever payload cannot be decrypted, the workflow neither fails nor goes on without it.
func TestMissingKeyFailsTheTask(t *testing.T) {
	text, _ := key(t, "one")
	other, _ := key(t, "lost")
	c := open(t, codec.Config{Keys: ring(t, text)})
	plain := []*commonpb.Payload{payload(t, "Ann"), payload(t, "Hello, Ann"), payload(t, "word")}
	lost, err := ring(t, other).Encode(plain)
	require.NoError(t, err)
	for i, place := range []string{"arguments", "result of an activity", "signal"} {
		payloads := []*commonpb.Payload{plain[0], plain[1], plain[2]}
		payloads[i] = lost[i]
		err := replay(t, c, history(payloads[0], payloads[1], payloads[2]))
		// The replayer names what failed the task; of a failed workflow, and of one that goes on waiting, it says otherwise.
		require.EqualError(t, err, `decrypt payload: the encryption key "lost" is not configured here`, place)
	}
	// Elsewhere it is an error, and what is no fault of the codec is one everywhere.
	var got string
	err = c.Data().FromPayload(lost[0], &got)
	require.ErrorContains(t, err, `"lost"`)
	aware, ok := c.Data().(converter.ContextAware)
	require.True(t, ok)
	inside := aware.WithWorkflowContext(nil)
	var number int
	require.Error(t, inside.FromPayload(plain[0], &number), "a wrong type is the workflow's own affair")
	require.Panics(t, func() { _ = inside.FromPayload(lost[0], &got) })
	require.Panics(t, func() { _ = inside.FromPayloads(&commonpb.Payloads{Payloads: lost}, &got) })
	kept := converter.WithDataConverterSerializationContext(inside, converter.WorkflowSerializationContext{WorkflowID: "w"})
	require.Panics(t, func() { _ = kept.FromPayload(lost[0], &got) }, "still within")
	require.Error(t, aware.WithContext(t.Context()).FromPayload(lost[0], &got))
	require.Contains(t, c.Data().ToString(lost[0]), "lost")
}
