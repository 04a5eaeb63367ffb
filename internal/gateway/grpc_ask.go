package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// AskAgent and AskAgentStream are Invoke and Stream for clients that want text with its citations instead of events.

// askAgent is the shipped agent for questions that name no agent.
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
		renamed.Field = "query" // its name in an AgentRequest
		if e.Code == agent.CodeInvalid {
			renamed.Err = errors.New("is empty")
		}
		err = &renamed
	}
	return caller, receipt, err
}

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
	ctx, cancel := s.streamContext(ctx)
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
	ctx, cancel := s.streamContext(out.Context())
	defer cancel()
	a := askStream{Gateway: s.Gateway, caller: caller, receipt: receipt, sendsPieces: true}
	return a.run(ctx, out.Send)
}

// askStream turns the events of one turn into responses.
type askStream struct {
	*Gateway

	caller      identity
	receipt     agent.Receipt
	branch      string
	pause       PauseWatch
	written     map[string]int64 // by producer: the last event whose text was yielded
	sendsPieces bool             // the client gets each piece, so the final response need not repeat them
	sent        []piece          // that the client has got and still shows
	size        int              // bytes of sent
}

// piece is the text of one event.
type piece struct {
	index int64
	text  string
}

// maxSent is how many bytes of sent text are remembered. After more than that, the final response repeats the answer.
const maxSent = 1 << 20

// rememberPiece remembers a piece that was sent.
func (a *askStream) rememberPiece(index int64, text string) {
	if a.size += len(text); a.sendsPieces && a.size <= maxSent {
		a.sent = append(a.sent, piece{index, text})
	}
}

// hasSent reports whether the text that the client shows ends with the answer.
func (a *askStream) hasSent(answer string) bool {
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
			end, err := a.ending(ctx, a.caller, &e)
			if err != nil {
				return err
			}
			return yield(a.final(end.Output, e.Meta.EventIndex))
		}
		if r := a.respond(&e); r != nil {
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

// begin returns the index after which to follow the events. For a turn that has ended and whose first events have expired, it returns the
// output instead.
func (a *askStream) begin(ctx context.Context) (after int64, output *agent.AgentStepOutput, err error) {
	if !a.receipt.Joined {
		return 0, nil, nil
	}
	v, err := a.turn(ctx, a.caller, a.receipt.TurnID, "")
	if err != nil {
		return 0, nil, err
	}
	a.pause.Present = v.Tail.LastIndex // earlier pauses are over
	hasExpired := v.Tail.FirstIndex > 1 || (v.Tail.FirstIndex == 0 && v.Tail.LastIndex > 0)
	switch {
	case !hasExpired:
		return 0, nil, nil
	case v.Output != nil:
		return 0, v.Output, nil
	default:
		return max(v.Tail.FirstIndex-1, 0), nil, nil
	}
}

// respond returns the response to an event, nil if the client gets none.
func (a *askStream) respond(e *agent.Event) *pb.AgentResponse {
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
		a.rememberPiece(e.Meta.EventIndex, e.Text)
		return r
	case e.Type == agent.EventReset && a.written[e.Producer] >= e.FromIndex && a.written[e.Producer] > 0:
		delete(a.written, e.Producer)
		a.sent = slices.DeleteFunc(a.sent, func(p piece) bool { return p.index >= e.FromIndex })
		r.Reset_, r.FromIndex = true, e.FromIndex
		return r
	}
	if a.pause.See(e) {
		r.Status, r.Pending = agent.StateWaiting, convertAll(a.pause.Pending, approvalToProto)
		return r
	}
	return nil
}

// branchOf returns the branch that the classification of a question chose, if the event ends the classification. That is a tool_end of
// [agent.PrepareClassify] by a producer whose name begins with "prepare".
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
		TurnId: validText(a.receipt.TurnID), SessionId: validText(a.receipt.SessionID), EventIndex: index, Branch: validText(a.branch),
	}
}

func (a *askStream) final(o *agent.AgentStepOutput, index int64) *pb.AgentResponse {
	r := a.response(index)
	r.IsFinal, r.Text, r.Status, r.Error, r.Output = true, validText(o.Output), validText(o.Status), failureToProto(o.Error), outputToProto(o)
	r.Citations = convertAll(citationsOf(o), annotationToProto)
	if a.hasSent(o.Output) {
		r.Text, r.Output.Output = "", ""
		for _, b := range r.GetOutput().GetBlocks() {
			b.Text = ""
		}
	}
	return r
}

// citationsOf returns the citations of all blocks. Their indices count runes from the beginning of the whole text.
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
		before += utf8.RuneCountInString(b.Text)
	}
	return all
}

func shiftIndex(index *int, offset int) *int {
	if index == nil {
		return nil
	}
	return new(*index + offset)
}
