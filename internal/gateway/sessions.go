package gateway

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/grpc"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// Sessions is the port of whole conversations. [agent.CodeNotFound] for a session that is unknown or belongs to another tenant.
type Sessions interface {
	// Messages returns a session's transcript after a position, at most limit messages.
	Messages(ctx context.Context, tenant string, s agent.SessionID, after int64, limit int) (MessagePage, error)
	// ExportSession returns everything that is kept of a session.
	ExportSession(ctx context.Context, tenant string, s agent.SessionID) (agent.SessionExport, error)
	// SetTitle gives a session a title, or none, and notes who did.
	SetTitle(ctx context.Context, tenant string, s agent.SessionID, title, by string) error
	// DeleteSession deletes a session with its turns, messages, events, approvals and the content that nothing else refers to. Its billing
	// records stay. [agent.CodeConflict] while a turn runs or waits in it.
	DeleteSession(ctx context.Context, tenant string, s agent.SessionID) (agent.SessionDeleted, error)
	// ForkSession makes a session that begins with a copy of another one's transcript. [agent.CodeNotFound] with Field "turn_id" for a turn that
	// the session does not have; [agent.CodeConflict] with Field "session_id" for a new session that is in use, with Field "turn_id" for a turn
	// that has not ended.
	ForkSession(ctx context.Context, tenant string, f agent.Fork) (agent.SessionForked, error)
}

// MessagePage is a part of a session's transcript, oldest first.
type MessagePage struct {
	SessionID agent.SessionID  `json:"session_id"`
	Messages  []SessionMessage `json:"messages"`
	Next      int64            `json:"next"` // pass as after for the next page; the position of the last message here
	More      bool             `json:"more"`
}

// SessionMessage is one message of a transcript.
type SessionMessage struct {
	Position  int64         `json:"position"` // from 1, ascending within the session
	TurnID    agent.TurnID  `json:"turn_id"`
	CreatedAt time.Time     `json:"created_at"`
	Role      agent.Role    `json:"role"`
	Blocks    []agent.Block `json:"blocks"`
}

func (s *httpServer) routeSessions() {
	const (
		all = "/v1/sessions"
		one = all + "/{id}"
	)
	s.route(all, methods{http.MethodGet: requires(s.answer(tenantAgreed, s.getSessions), agent.ActionSessionsRead)})
	s.route(one, methods{
		http.MethodPatch:  requires(s.answerPlain(tenantAgreed, s.patchSession), agent.ActionSessionsRead),
		http.MethodDelete: requires(s.answerPlain(tenantAgreed, s.deleteSession), agent.ActionSessionsDelete),
	})
	s.route(one+"/messages", methods{http.MethodGet: requires(s.answer(tenantAgreed, s.getMessages), agent.ActionSessionsRead)})
	s.route(one+"/fork", methods{http.MethodPost: requires(s.answerPlain(tenantAgreed, s.postFork), agent.ActionSessionsRead)})
	s.route(one+"/export", methods{http.MethodGet: requires(s.answerPlain(tenantAgreed, s.getExport), agent.ActionSessionsRead)})
}

// getMessages is GET /v1/sessions/{id}/messages?after=&limit=.
func (s *httpServer) getMessages(c *Call) (any, error) {
	after, limit := c.query.number("after"), c.query.number("limit")
	if err := c.query.end(); err != nil {
		return nil, err
	}
	session := c.sessionID()
	if !session.Valid() {
		return nil, noSession(session)
	}
	if most := int64(s.cfg.Limits.MessagePage); limit == 0 || limit > most {
		limit = most
	}
	page, err := s.cfg.Sessions.Messages(c.bounded(), c.Tenant(), session, after, int(limit))
	page.Messages = orEmpty(page.Messages)
	return page, err
}

func (c *Call) sessionID() agent.SessionID { return agent.SessionID(c.r.PathValue("id")) }

// getExport is GET /v1/sessions/{id}/export.
func (s *httpServer) getExport(c *Call) (any, error) {
	return s.exportSession(c.r.Context(), c.caller, c.sessionID())
}

// deleteSession is DELETE /v1/sessions/{id}.
func (s *httpServer) deleteSession(c *Call) (any, error) {
	return s.forgetSession(c.r.Context(), c.caller, c.sessionID())
}

func noSession(id agent.SessionID) error {
	return agent.Errorf(agent.CodeNotFound, "", "no session %.140q", id)
}

// exportSession returns everything that is kept of a session of the caller's tenant, and audits the export.
func (g *Gateway) exportSession(ctx context.Context, caller identity, id agent.SessionID) (agent.SessionExport, error) {
	if !id.Valid() {
		return agent.SessionExport{}, noSession(id)
	}
	ctx, cancel := g.bounded(ctx)
	defer cancel()
	export, err := g.cfg.Sessions.ExportSession(ctx, caller.ownTenant(), id)
	caller.auditChange(agent.ActionSessionsRead, "session/"+string(id), facts{"export": true}, err)
	export.Messages, export.Turns = orEmpty(export.Messages), orEmpty(export.Turns)
	export.Approvals, export.Notes, export.References = orEmpty(export.Approvals), orEmpty(export.Notes), orEmpty(export.References)
	return export, err
}

// forgetSession deletes a session of the caller's tenant, and audits that.
func (g *Gateway) forgetSession(ctx context.Context, caller identity, id agent.SessionID) (agent.SessionDeleted, error) {
	if !id.Valid() {
		return agent.SessionDeleted{}, noSession(id)
	}
	ctx, cancel := g.bounded(ctx)
	defer cancel()
	deleted, err := g.cfg.Sessions.DeleteSession(ctx, caller.ownTenant(), id)
	caller.auditChange(agent.ActionSessionsDelete, "session/"+string(id), facts{"turns": deleted.Turns}, err)
	return deleted, err
}

// ExportSession implements the service.
func (s *grpcServer) ExportSession(p *pb.ExportSessionRequest, out grpc.ServerStreamingServer[pb.ExportSessionResponse]) error {
	caller, err := grpcCaller(out.Context())
	if err != nil {
		return err
	}
	export, err := s.exportSession(out.Context(), caller, agent.SessionID(p.GetSessionId()))
	if err != nil {
		return err
	}
	data, err := EncodeJSON(export)
	if err != nil {
		return err
	}
	for len(data) > 0 {
		n := min(len(data), s.cfg.Limits.ResultPart)
		if err := out.Send(&pb.ExportSessionResponse{Data: data[:n]}); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// DeleteSession implements the service.
func (s *grpcServer) DeleteSession(ctx context.Context, p *pb.DeleteSessionRequest) (*pb.DeleteSessionResponse, error) {
	caller, err := grpcCaller(ctx)
	if err != nil {
		return nil, err
	}
	deleted, err := s.forgetSession(ctx, caller, agent.SessionID(p.GetSessionId()))
	return &pb.DeleteSessionResponse{
		SessionId: validText(string(deleted.SessionID)), Turns: int64(deleted.Turns), Messages: int64(deleted.Messages), Blobs: int64(deleted.Blobs),
	}, err
}
