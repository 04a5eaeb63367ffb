package turnstone

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/cluster"
	"github.com/turnstone-run/turnstone/internal/definitions"
	"github.com/turnstone-run/turnstone/internal/definitions/library"
	"github.com/turnstone-run/turnstone/internal/notifications"
	"github.com/turnstone-run/turnstone/internal/results"
	"github.com/turnstone-run/turnstone/internal/tool/pipeline"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// openLibrary opens the library of workflow definitions and keeps their Temporal schedules in step with it.
func (s *Service) openLibrary(_, background context.Context) error {
	set := s.cfg.Settings
	keeper, err := cluster.NewWorkflowSchedules(cluster.WorkflowScheduleConfig{
		Schedules: s.temporal.ScheduleClient(), Definitions: s.store.WorkflowStore, TaskQueue: set.Temporal.TaskQueue, Data: s.codec.Data(),
		Logger: s.logger.Named("schedules"),
	})
	if err != nil {
		return err
	}
	if s.library, err = library.New(library.Config{Store: s.store.WorkflowStore, Schedules: keeper, Logger: s.logger.Named("workflows")}); err != nil {
		return err
	}
	if every := set.Workflows.ReconcileEvery; every > 0 {
		s.goUpkeep(func() {
			if err := keeper.Run(background, every); err != nil {
				s.logger.Error("schedules of workflows are no longer reconciled", zap.Error(err))
			}
		})
	}
	return nil
}

// definitionRunner returns the use cases that the activities of DefinedWorkflow call.
func (s *Service) definitionRunner() (*definitions.Runner, error) {
	cfg := definitions.Config{
		Store: s.store, Turns: agentNodeTurns{s.turns}, Rows: nodeRows{s.rows(), s.blobs}, Logger: s.logger.Named("workflows"),
		SearchAttributes: s.watch.KnowsTurns,
		Webhooks:         &notifications.Webhooks{HTTP: s.parts.Patient, Auth: s.parts.Auth, Profiles: s.parts.Registry},
	}
	if execute, err := s.parts.Tools.Tool(pipeline.ToolkitName, pipeline.ToolName); err == nil {
		cfg.Pipelines = nodePipelines{execute}
	}
	mailer, err := s.mailer()
	if err != nil {
		return nil, err
	}
	if mailer != nil {
		cfg.Mailer = mailer
	}
	return definitions.New(cfg)
}

// agentNodeTurns runs agent nodes as turns.
type agentNodeTurns struct{ turns *turns.Turns }

// BeginTurn implements [definitions.Turns].
func (n agentNodeTurns) BeginTurn(ctx context.Context, r agent.TurnRequest) error {
	_, err := n.turns.Begin(ctx, r, turns.BeginTurnInput{WorkflowID: r.TurnID.WorkflowID()})
	return err
}

// Turn implements [definitions.Turns].
func (n agentNodeTurns) Turn(ctx context.Context, id agent.TurnID) (agent.AgentStepOutput, error) {
	t, err := n.turns.Ended(ctx, id)
	if err != nil {
		return agent.AgentStepOutput{}, err
	}
	return *t.Output, nil
}

// nodeRows stores the rows that one node passes to the next.
type nodeRows struct {
	results.Reader

	blobs interface {
		Put(ctx context.Context, tenant string, r io.Reader) (ref string, err error)
	}
}

// Put implements [definitions.Rows].
func (n nodeRows) Put(ctx context.Context, tenant string, r io.Reader) (string, error) {
	return n.blobs.Put(ctx, tenant, r)
}

// nodePipelines runs pipeline tasks with the tool execute_pipeline.
type nodePipelines struct{ tool agent.Tool }

// pipelineArgs are the arguments of execute_pipeline.
type pipelineArgs struct {
	SessionID string          `json:"session_id"`
	Pipeline  json.RawMessage `json:"pipeline"`
	InputRef  string          `json:"input_ref,omitempty"`
}

// EffectFree implements [definitions.Pipelines].
func (n nodePipelines) EffectFree(steps json.RawMessage) bool {
	free, ok := n.tool.(agent.EffectFree)
	if !ok {
		return false
	}
	for _, ref := range []string{"", "cas://rows"} { // steps that load their own rows, and steps that are given rows
		args, err := json.Marshal(pipelineArgs{SessionID: "workflow", Pipeline: steps, InputRef: ref})
		if err == nil && free.EffectFree(args) {
			return true
		}
	}
	return false
}

// Run implements [definitions.Pipelines].
func (n nodePipelines) Run(ctx context.Context, c definitions.PipelineCall) (definitions.PipelineResult, error) {
	args, err := json.Marshal(pipelineArgs{SessionID: c.RunID, Pipeline: c.Steps, InputRef: c.InputRef})
	if err != nil {
		return definitions.PipelineResult{}, agent.Invalid("config.pipeline", "%w", err)
	}
	inv := agent.Invocation{
		Tenant: c.Tenant, UserID: c.UserID, SessionID: agent.SessionID(c.RunID), Attempt: 1, IdempotencyKey: c.Key, Repeatable: c.Repeatable,
	}
	out, err := n.tool.Call(ctx, inv, agent.ToolCall{ID: agent.CallID(c.Key), Name: pipeline.ToolName, Args: args})
	if err != nil {
		return definitions.PipelineResult{}, err
	}
	result := definitions.PipelineResult{Preview: out.Preview, Failure: out.Failure}
	if out.Failure == nil {
		if out.Dataset == nil {
			return result, errors.New("the pipeline stored no rows")
		}
		result.Ref, result.RowCount = out.Dataset.Ref, int64(out.Dataset.RowCount)
	}
	return result, nil
}
