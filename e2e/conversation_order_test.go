package e2e_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
	"github.com/turnstone-run/turnstone/workflows"
)

// TestConversationKeepsTheOrderOfItsQueue sends a signal while a conversation that took an update continues as new. Temporal refuses the end of that
// workflow task and repeats it with the signal. A message that the first task queued must not be refused, and turns run in the order of the queue.
func TestConversationKeepsTheOrderOfItsQueue(t *testing.T) {
	t.Parallel()
	s := start(t)
	o := &orderOfMessages{signal: func() {
		require.NoError(t, s.Temporal().SignalWorkflow(context.Background(), "ordered", "", "message", turns.Message{Message: "signal"}))
	}}
	interrupted, err := client.Dial(client.Options{
		HostPort: s.set.Temporal.Address, Namespace: s.set.Temporal.Namespace,
		ConnectionOptions: client.ConnectionOptions{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(o.interrupt)}},
	})
	require.NoError(t, err)
	defer interrupted.Close()
	w := sdkworker.New(interrupted, "ordered", sdkworker.Options{})
	o.register(w)
	require.NoError(t, w.Start())
	defer w.Stop()

	_, err = s.Temporal().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "ordered", TaskQueue: "ordered"},
		workflows.ConversationType, workflows.ConversationInput{SessionID: "s"}, nil)
	require.NoError(t, err)
	s.say("ordered", "first")
	require.Eventually(t, func() bool { return s.view("ordered").Turns == 1 }, 20*time.Second, 50*time.Millisecond)
	s.say("ordered", "second") // it continues as new at once
	require.Eventually(t, func() bool { return s.view("ordered").Turns == 3 }, 20*time.Second, 50*time.Millisecond)
	require.Greater(t, len(s.runs("ordered")), 1)
	queued, ran := o.orders()
	require.Len(t, queued, 3)
	require.Equal(t, queued, ran)
}

// orderOfMessages records the order in which messages are queued and in which their turns run.
type orderOfMessages struct {
	signal func()
	once   sync.Once

	mu          sync.Mutex
	queued, ran []agent.TurnID
}

func (o *orderOfMessages) orders() (queued, ran []agent.TurnID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.queued), slices.Clone(o.ran)
}

// interrupt sends the signal before the first task that continues as new is completed.
func (o *orderOfMessages) interrupt(
	ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	if task, ok := req.(*workflowservice.RespondWorkflowTaskCompletedRequest); ok {
		for _, c := range task.GetCommands() {
			if c.GetCommandType() == enumspb.COMMAND_TYPE_CONTINUE_AS_NEW_WORKFLOW_EXECUTION {
				o.once.Do(o.signal)
			}
		}
	}
	return invoke(ctx, method, req, reply, conn, opts...)
}

func (o *orderOfMessages) register(w sdkworker.Worker) {
	w.RegisterWorkflowWithOptions(workflows.Conversation, workflow.RegisterOptions{Name: workflows.ConversationType})
	w.RegisterWorkflowWithOptions(o.runTurn, workflow.RegisterOptions{Name: workflows.AgentTurnType})
	w.RegisterActivityWithOptions(o.queueMessage, activity.RegisterOptions{Name: "QueueMessage"})
	w.RegisterActivityWithOptions((&activities.Activities{}).CheckConversation, activity.RegisterOptions{Name: "CheckConversation"})
}

func (o *orderOfMessages) queueMessage(_ context.Context, in turns.QueueMessageInput) (turns.QueueMessageResult, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Contains(o.queued, in.TurnID) {
		o.queued = append(o.queued, in.TurnID)
	}
	return turns.QueueMessageResult{TurnID: in.TurnID, ContinueAsNew: 30 / len(o.queued)}, nil
}

func (o *orderOfMessages) runTurn(_ workflow.Context, raw converter.RawValue, _ *workflows.Carry) (agent.AgentStepOutput, error) {
	var r agent.TurnRequest
	if err := converter.GetDefaultDataConverter().FromPayload(raw.Payload(), &r); err != nil {
		return agent.AgentStepOutput{}, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Contains(o.ran, r.TurnID) {
		o.ran = append(o.ran, r.TurnID)
	}
	return agent.AgentStepOutput{TurnID: r.TurnID, Status: agent.TurnCompleted}, nil
}
