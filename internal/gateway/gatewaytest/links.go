package gatewaytest

import (
	"cmp"
	"context"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// Links is a [gateway.Links] in memory. It is not safe for concurrent use.
type Links struct {
	All   []agent.Link
	Codes []agent.LinkCode
}

// Link links a chat without a code.
func (s *Links) Link(chat, tenant, user string, scopes ...string) {
	s.All = append(s.All, agent.Link{
		Chat: agent.Chat{Channel: "telegram", ChatID: chat}, Tenant: tenant, UserID: user, Scopes: scopes, LinkedAt: Epoch(),
	})
}

// RedeemLink links a chat to the user of a code.
func (s *Links) RedeemLink(c agent.Chat, code string) (agent.Link, error) {
	for _, offer := range s.Codes {
		if slices.Equal(offer.Hash, agent.HashLinkCode(code)) {
			offer.Link.Chat, offer.Link.LinkedAt = c, Epoch()
			s.All = append(s.All, offer.Link)
			return offer.Link, nil
		}
	}
	return agent.Link{}, &agent.Error{Code: agent.CodeNotFound, Err: agent.ErrLinkCode}
}

// CreateLinkCode implements [gateway.Links].
func (s *Links) CreateLinkCode(_ context.Context, c agent.LinkCode) error {
	s.Codes = append(s.Codes, c)
	return nil
}

// ChatLink implements [gateway.Links].
func (s *Links) ChatLink(_ context.Context, c agent.Chat) (agent.Link, error) {
	if at := s.find(c); at >= 0 {
		return s.All[at], nil
	}
	return agent.Link{}, notLinked(c)
}

// Unlink implements [gateway.Links].
func (s *Links) Unlink(_ context.Context, tenant string, c agent.Chat) error {
	at := s.find(c)
	if at < 0 || s.All[at].Tenant != tenant {
		return notLinked(c)
	}
	s.All = slices.Delete(s.All, at, at+1)
	return nil
}

// Links lists the links of a tenant. A page token is the last chat of the page before.
func (s *Links) Links(_ context.Context, q agent.LinkQuery) (agent.LinkPage, error) {
	key := func(l agent.Link) string { return l.Channel + "/" + l.ChatID }
	found := slices.DeleteFunc(slices.Clone(s.All), func(l agent.Link) bool {
		return l.Tenant != q.Tenant || q.Channel != "" && l.Channel != q.Channel || q.UserID != "" && l.UserID != q.UserID || key(l) <= q.PageToken
	})
	slices.SortFunc(found, func(a, b agent.Link) int { return cmp.Compare(key(a), key(b)) })
	size := min(cmp.Or(q.PageSize, 50), 500)
	if len(found) <= size {
		return agent.LinkPage{Links: found}, nil
	}
	return agent.LinkPage{Links: found[:size], Next: key(found[size-1])}, nil
}

func (s *Links) find(c agent.Chat) int {
	return slices.IndexFunc(s.All, func(l agent.Link) bool { return l.Chat == c })
}

func notLinked(c agent.Chat) error {
	return agent.Errorf(agent.CodeNotFound, "", "chat %q is linked to no user", c.ChatID)
}
