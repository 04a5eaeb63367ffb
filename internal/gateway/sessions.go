package gateway

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/grpc"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// Sessions is the port of whole conversations. An unknown session and another tenant's are [agent.CodeNotFound].
type Sessions interface {
	// Messages returns at most limit messages of a session's transcript, after a position.
	Messages(ctx context.Context, tenant string, s agent.SessionID, after int64, limit int) (MessagePage, error)
	// ExportSession returns everything that is stored about a session.
	ExportSession(ctx context.Context, tenant string, s agent.SessionID) (agent.SessionExport, error)
	// SetTitle sets the title of a session and who set it. An empty title removes it.
	SetTitle(ctx context.Context, tenant string, s agent.SessionID, title, by string) error
	// DeleteSession deletes a session with its turns, messages, events, approvals and the content that nothing else refers to. Its billing
	// records stay. The error is [agent.CodeConflict] while a turn of the session runs or waits.
	DeleteSession(ctx context.Context, tenant string, s agent.SessionID) (agent.SessionDeleted, error)
	// ForkSession creates a session that begins with a copy of another one's transcript. The error is [agent.CodeNotFound] with Field "turn_id"
	// if the session has no such turn, and [agent.CodeConflict] with Field "session_id" if the new session exists, or with Field "turn_id" if
	// the turn has not ended.
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
	s.route(all, methods{
		http.MethodGet: requires(answerQuery(s, tenantUnambiguous, readSessionQuery, s.findSessions), agent.ActionSessionsRead),
	})
	s.route(one, methods{
		http.MethodPatch:  requires(s.answerWithoutQuery(tenantUnambiguous, s.patchSession), agent.ActionSessionsRead),
		http.MethodDelete: requires(s.answerWithoutQuery(tenantUnambiguous, s.deleteSessionByID), agent.ActionSessionsDelete),
	})
	s.route(one+"/messages", methods{http.MethodGet: requires(s.answer(tenantUnambiguous, s.getMessages), agent.ActionSessionsRead)})
	s.route(one+"/fork", methods{http.MethodPost: requires(s.answerWithoutQuery(tenantUnambiguous, s.postFork), agent.ActionSessionsRead)})
	s.route(one+"/export", methods{http.MethodGet: requires(s.answerWithoutQuery(tenantUnambiguous, s.getExport), agent.ActionSessionsRead)})
}

// getMessages is GET /v1/sessions/{id}/messages?after=&limit=.
func (s *httpServer) getMessages(c *Call) (any, error) {
	after, limit := c.query.number("after"), c.query.number("limit")
	if err := c.query.validate(); err != nil {
		return nil, err
	}
	session := c.sessionID()
	if !session.Valid() {
		return nil, noSession(session)
	}
	if maxMessages := int64(s.cfg.Limits.MessagePage); limit == 0 || limit > maxMessages {
		limit = maxMessages
	}
	page, err := s.cfg.Sessions.Messages(c.callContext(), c.Tenant(), session, after, int(limit))
	page.Messages = orEmpty(page.Messages)
	return page, err
}

func (c *Call) sessionID() agent.SessionID { return agent.SessionID(c.r.PathValue("id")) }

// getExport is GET /v1/sessions/{id}/export.
func (s *httpServer) getExport(c *Call) (any, error) {
	return s.exportSession(c.callContext(), c.caller, c.sessionID())
}

// deleteSessionByID is DELETE /v1/sessions/{id}.
func (s *httpServer) deleteSessionByID(c *Call) (any, error) {
	return s.deleteSession(c.callContext(), c.caller, c.sessionID())
}

func noSession(id agent.SessionID) error {
	return agent.Errorf(agent.CodeNotFound, "", "no session %.140q", id)
}

// exportSession returns everything that is stored about a session of the caller's tenant, and audits the export.
func (g *Gateway) exportSession(ctx context.Context, caller identity, id agent.SessionID) (agent.SessionExport, error) {
	if !id.Valid() {
		return agent.SessionExport{}, noSession(id)
	}
	export, err := g.cfg.Sessions.ExportSession(ctx, caller.ownTenant(), id)
	caller.auditChange(agent.ActionSessionsRead, "session/"+string(id), facts{"export": true}, err)
	export.Messages, export.Turns = orEmpty(export.Messages), orEmpty(export.Turns)
	export.Approvals, export.Notes, export.References = orEmpty(export.Approvals), orEmpty(export.Notes), orEmpty(export.References)
	return export, err
}

// deleteSession deletes a session of the caller's tenant, and audits the change.
func (g *Gateway) deleteSession(ctx context.Context, caller identity, id agent.SessionID) (agent.SessionDeleted, error) {
	if !id.Valid() {
		return agent.SessionDeleted{}, noSession(id)
	}
	deleted, err := g.cfg.Sessions.DeleteSession(ctx, caller.ownTenant(), id)
	caller.auditChange(agent.ActionSessionsDelete, "session/"+string(id), facts{"turns": deleted.Turns}, err)
	return deleted, err
}

func (s *grpcServer) ExportSession(p *pb.ExportSessionRequest, out grpc.ServerStreamingServer[pb.ExportSessionResponse]) error {
	ctx, cancel := s.callContext(out.Context())
	defer cancel()
	export, err := s.exportSession(ctx, callerOf(ctx), agent.SessionID(p.GetSessionId()))
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

func (s *grpcServer) DeleteSession(ctx context.Context, p *pb.DeleteSessionRequest) (*pb.DeleteSessionResponse, error) {
	deleted, err := s.deleteSession(ctx, callerOf(ctx), agent.SessionID(p.GetSessionId()))
	return &pb.DeleteSessionResponse{
		SessionId: validText(deleted.SessionID), Turns: int64(deleted.Turns), Messages: int64(deleted.Messages), Blobs: int64(deleted.Blobs),
	}, err
}
