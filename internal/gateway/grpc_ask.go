package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	utf "unicode/utf8"

	"google.golang.org/grpc"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// This file is AskAgent and AskAgentStream: Invoke and Stream for clients that want text, and where it comes from, instead of
// events.

// askAgent is the shipped agent that answers where a question names none.
const askAgent = "ask"

// askCall submits a question.
func (s *grpcServer) askCall(ctx context.Context, p *pb.AgentRequest) (identity, agent.Receipt, error) {
	caller, receipt, err := s.submitCall(ctx, &pb.TurnRequest{
		Message: p.GetQuery(), SessionId: p.GetSessionId(), Agent: cmp.Or(p.GetAgent(), askAgent), Context: p.GetContext(), History: p.GetHistory(),
		Model: p.GetModel(), TurnId: p.GetTurnId(), IdempotencyKey: p.GetIdempotencyKey(), Limits: p.GetLimits(),
		OutputSchema: p.GetOutputSchema(), Mode: p.GetMode(), OnBusy: p.GetOnBusy(),
	})
	if e := agentError(err); e != nil && e.Field == "message" {
		renamed := *e
		renamed.Field = "query" // the name of the field in this request
		if e.Code == agent.CodeInvalid {
			renamed.Err = errors.New("is empty")
		}
		err = &renamed
	}
	return caller, receipt, err
}

// AskAgent implements the service.
func (s *grpcServer) AskAgent(ctx context.Context, p *pb.AgentRequest) (*pb.AgentResponse, error) {
	leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	caller, receipt, err := s.askCall(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := grpc.SetHeader(ctx, turnMetadata(receipt.TurnID)); err != nil {
		return nil, fmt.Errorf("set header: %w", err)
	}
	ctx, cancel := s.whileOpen(ctx)
	defer cancel()
	var answer *pb.AgentResponse
	a := askStream{Gateway: s.Gateway, caller: caller, receipt: receipt}
	err = a.run(ctx, func(r *pb.AgentResponse) error {
		if len(a.pause.Pending) > 0 && r.GetStatus() == agent.StateWaiting {
			return waitingError(receipt, a.pause.Pending)
		}
		answer = r
		return nil
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// AskAgentStream implements the service.
func (s *grpcServer) AskAgentStream(p *pb.AgentRequest, out grpc.ServerStreamingServer[pb.AgentResponse]) error {
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	caller, receipt, err := s.askCall(out.Context(), p)
	if err != nil {
		return err
	}
	if err := out.SendHeader(turnMetadata(receipt.TurnID)); err != nil {
		return fmt.Errorf("send header: %w", err)
	}
	ctx, cancel := s.whileOpen(out.Context())
	defer cancel()
	a := askStream{Gateway: s.Gateway, caller: caller, receipt: receipt, pieces: true}
	return a.run(ctx, out.Send)
}

// askStream turns the events of one turn into responses.
type askStream struct {
	*Gateway

	caller  identity
	receipt agent.Receipt
	branch  string
	pause   PauseWatch
	written map[string]int64 // by producer: the last event whose text was yielded
	pieces  bool             // the client gets each piece, so the final response repeats none
	sent    []piece          // what it has got and was not told to drop
	size    int              // bytes of sent
}

// piece is the text of one event.
type piece struct {
	index int64
	text  string
}

// maxSent bounds how much of the text already sent is remembered, in bytes. The final response repeats a longer answer whole.
const maxSent = 1 << 20

// keep remembers a piece that was sent.
func (a *askStream) keep(index int64, text string) {
	if a.size += len(text); a.pieces && a.size <= maxSent {
		a.sent = append(a.sent, piece{index, text})
	}
}

// drop forgets the pieces that a reset takes back.
func (a *askStream) drop(from int64) {
	a.sent = slices.DeleteFunc(a.sent, func(p piece) bool { return p.index >= from })
}

// has reports whether the client has got the whole answer: what it shows ends with it.
func (a *askStream) has(answer string) bool {
	if answer == "" || len(a.sent) == 0 || a.size > maxSent {
		return false
	}
	var shown strings.Builder
	for _, p := range a.sent {
		shown.WriteString(p.text)
	}
	return strings.HasSuffix(shown.String(), answer)
}

// run yields responses until the final one.
func (a *askStream) run(ctx context.Context, yield func(*pb.AgentResponse) error) error {
	after, output, err := a.begin(ctx)
	if err != nil {
		return err
	}
	if output != nil {
		return yield(a.final(output, 0))
	}
	for e, err := range a.cfg.Turns.Follow(ctx, a.receipt.TurnID, after) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if e.Terminal() {
			end, err := a.ended(ctx, a.caller, &e)
			if err != nil {
				return err
			}
			return yield(a.final(end.Output, e.Meta.EventIndex))
		}
		if r := a.take(&e); r != nil {
			if err := yield(r); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return agent.Errorf(agent.CodeUnavailable, "", "the events of turn %s ended before the turn", a.receipt.TurnID)
}

// begin says behind which event to begin. Of a turn that was asked before and whose first events have expired, the rest is yielded; when
// it is over, its output.
func (a *askStream) begin(ctx context.Context) (after int64, over *agent.AgentStepOutput, err error) {
	if !a.receipt.Joined {
		return 0, nil, nil
	}
	v, err := a.turn(ctx, a.caller, a.receipt.TurnID, "")
	if err != nil {
		return 0, nil, err
	}
	a.pause.Present = v.Tail.LastIndex // only a pause that lasts counts
	switch gone := v.Tail.FirstIndex > 1 || (v.Tail.FirstIndex == 0 && v.Tail.LastIndex > 0); {
	case gone && v.Output != nil:
		return 0, v.Output, nil
	case gone:
		return max(v.Tail.FirstIndex-1, 0), nil, nil
	}
	return 0, nil, nil
}

// take makes a response of an event; nil for one that says nothing to who asked.
func (a *askStream) take(e *agent.Event) *pb.AgentResponse {
	if branch := branchOf(e); branch != "" {
		a.branch = branch
	}
	r := a.response(e.Meta.EventIndex)
	switch {
	case e.Type == agent.EventToken && e.Text != "":
		if a.written == nil {
			a.written = map[string]int64{}
		}
		a.written[e.Meta.Producer] = e.Meta.EventIndex
		r.Text = validText(e.Text)
		a.keep(e.Meta.EventIndex, e.Text)
		return r
	case e.Type == agent.EventReset && a.written[e.Producer] >= e.FromIndex && a.written[e.Producer] > 0:
		delete(a.written, e.Producer)
		a.drop(e.FromIndex)
		r.Reset_, r.FromIndex = true, e.FromIndex
		return r
	}
	if a.pause.See(e) {
		r.Status, r.Pending = agent.StateWaiting, each(a.pause.Pending, approvalToProto)
		return r
	}
	return nil
}

// branchOf reads which way a question went from the event that ends its classification: a tool_end of [agent.PrepareClassify] by a
// producer "prepare…", whose output has the branch.
func branchOf(e *agent.Event) string {
	if e.Type != agent.EventToolEnd || e.ToolName != agent.PrepareClassify || !strings.HasPrefix(e.Meta.Producer, "prepare") {
		return ""
	}
	var output struct {
		Branch string `json:"branch"`
	}
	if json.Unmarshal(e.Output, &output) != nil {
		return ""
	}
	return output.Branch
}

func (a *askStream) response(index int64) *pb.AgentResponse {
	return &pb.AgentResponse{
		TurnId: validText(string(a.receipt.TurnID)), SessionId: validText(string(a.receipt.SessionID)), EventIndex: index, Branch: validText(a.branch),
	}
}

func (a *askStream) final(o *agent.AgentStepOutput, index int64) *pb.AgentResponse {
	r := a.response(index)
	r.IsFinal, r.Text, r.Status, r.Error, r.Output = true, validText(o.Output), validText(string(o.Status)), failureToProto(o.Error), outputToProto(o)
	r.Citations = each(citationsOf(o), annotationToProto)
	if a.has(o.Output) {
		r.Text, r.Output.Output = "", ""
		for _, b := range r.GetOutput().GetBlocks() {
			b.Text = ""
		}
	}
	return r
}

// citationsOf gathers the citations of an output, their places counted, in runes, from the beginning of the whole text.
func citationsOf(o *agent.AgentStepOutput) []agent.Annotation {
	var all []agent.Annotation
	before := 0
	for i := range o.Blocks {
		b := &o.Blocks[i]
		if b.Type != agent.BlockText {
			continue
		}
		for _, c := range b.Annotations {
			if c.Type == "citation" {
				c.StartIndex, c.EndIndex = shiftIndex(c.StartIndex, before), shiftIndex(c.EndIndex, before)
				all = append(all, c)
			}
		}
		before += utf.RuneCountInString(b.Text)
	}
	return all
}

func shiftIndex(index *int, by int) *int {
	if index == nil {
		return nil
	}
	n := *index + by
	return &n
}
