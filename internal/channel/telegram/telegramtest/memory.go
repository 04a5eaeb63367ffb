package telegramtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Memory is a store in memory.
type Memory struct {
	// Broken is what every method answers, unless it is nil.
	Broken func(method string) error

	mu        sync.Mutex
	links     map[agent.Chat]agent.Link
	codes     map[string]*code
	failures  map[agent.Chat]*failed
	threads   map[agent.Chat]int64
	turns     map[agent.TurnID]*owed
	questions []agent.ChatQuestion
}

type code struct {
	offer  agent.LinkCode
	usedBy *agent.Chat
}

type failed struct {
	since time.Time
	count int
}

type owed struct {
	turn    agent.ChatTurn
	holder  string
	until   time.Time
	settled bool
}

var _ Store = (*Memory)(nil)

// NewMemory makes an empty store.
func NewMemory() *Memory {
	return &Memory{
		links: map[agent.Chat]agent.Link{}, codes: map[string]*code{}, failures: map[agent.Chat]*failed{}, threads: map[agent.Chat]int64{},
		turns: map[agent.TurnID]*owed{},
	}
}

// enter takes the lock, unless the store is broken.
func (m *Memory) enter(method string) error {
	if m.Broken != nil {
		if err := m.Broken(method); err != nil {
			return err
		}
	}
	m.mu.Lock()
	return nil
}

// Link links a chat without a code.
func (m *Memory) Link(chat, tenant, user string, scopes ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := agent.Chat{Channel: "telegram", ChatID: chat}
	m.links[c] = agent.Link{Chat: c, Tenant: tenant, UserID: user, Scopes: scopes, LinkedAt: time.Now().UTC()}
}

// CreateLinkCode records an offer.
func (m *Memory) CreateLinkCode(_ context.Context, c agent.LinkCode) error {
	if err := m.enter("CreateLinkCode"); err != nil {
		return err
	}
	defer m.mu.Unlock()
	m.codes[hex.EncodeToString(c.Hash)] = &code{offer: c}
	return nil
}

// ChatLink returns the link of a chat.
func (m *Memory) ChatLink(_ context.Context, c agent.Chat) (agent.Link, error) {
	if err := m.enter("ChatLink"); err != nil {
		return agent.Link{}, err
	}
	defer m.mu.Unlock()
	l, ok := m.links[c]
	if !ok {
		return agent.Link{}, agent.Errorf(agent.CodeNotFound, "", "chat %q is linked to no user", c.ChatID)
	}
	return l, nil
}

// RedeemLink links a chat with what a code offers.
func (m *Memory) RedeemLink(_ context.Context, c agent.Chat, said string) (agent.Link, error) {
	if err := m.enter("RedeemLink"); err != nil {
		return agent.Link{}, err
	}
	defer m.mu.Unlock()
	f := m.failures[c]
	if f == nil || time.Since(f.since) > agent.LinkWindow {
		f = &failed{since: time.Now()}
		m.failures[c] = f
	}
	if f.count >= agent.MaxLinkFailures {
		return agent.Link{}, &agent.Error{Code: agent.CodeRateLimited, RetryAfter: agent.LinkWindow - time.Since(f.since), Err: agent.ErrLinkCode}
	}
	hash := agent.HashLinkCode(said)
	known := m.codes[hex.EncodeToString(hash)]
	unknown := &agent.Error{Code: agent.CodeNotFound, Err: agent.ErrLinkCode}
	switch {
	case known == nil || !bytes.Equal(known.offer.Hash, hash) || known.offer.Link.Channel != c.Channel:
		f.count++
		return agent.Link{}, unknown
	case known.usedBy != nil && *known.usedBy == c:
		if l, ok := m.links[c]; ok && l.Tenant == known.offer.Link.Tenant && l.UserID == known.offer.Link.UserID {
			return l, nil
		}
		f.count++
		return agent.Link{}, unknown
	case known.usedBy != nil || time.Now().After(known.offer.ExpiresAt):
		f.count++
		return agent.Link{}, unknown
	}
	chats := 0
	for at, l := range m.links {
		if at != c && l.Tenant == known.offer.Link.Tenant && l.UserID == known.offer.Link.UserID {
			chats++
		}
	}
	if chats >= agent.MaxUserLinks {
		return agent.Link{}, agent.Errorf(agent.CodeConflict, "", "the user has %d chats already", chats)
	}
	known.usedBy = &c
	l := known.offer.Link
	l.Chat, l.LinkedAt = c, time.Now().UTC()
	m.links[c] = l
	return l, nil
}

// Unlink takes a link of a tenant away.
func (m *Memory) Unlink(_ context.Context, tenant string, c agent.Chat) error {
	if err := m.enter("Unlink"); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if l, ok := m.links[c]; !ok || l.Tenant != tenant {
		return agent.Errorf(agent.CodeNotFound, "", "chat %q is linked to no user", c.ChatID)
	}
	delete(m.links, c)
	m.threads[c]++
	return nil
}

// Links lists the links of a tenant. A page token is the last chat of the page before.
func (m *Memory) Links(_ context.Context, q agent.LinkQuery) (agent.LinkPage, error) {
	if err := m.enter("Links"); err != nil {
		return agent.LinkPage{}, err
	}
	defer m.mu.Unlock()
	var found []agent.Link
	name := func(l *agent.Link) string { return l.Channel + "/" + l.ChatID }
	for _, l := range m.links {
		if l.Tenant == q.Tenant && (q.Channel == "" || l.Channel == q.Channel) && (q.UserID == "" || l.UserID == q.UserID) && name(&l) > q.PageToken {
			found = append(found, l)
		}
	}
	slices.SortFunc(found, func(a, b agent.Link) int { return cmp.Compare(name(&a), name(&b)) })
	size := min(cmp.Or(q.PageSize, 50), 500)
	if len(found) <= size {
		return agent.LinkPage{Links: found}, nil
	}
	return agent.LinkPage{Links: found[:size], Next: name(&found[size-1])}, nil
}

// ChatThread says in which conversation a chat is.
func (m *Memory) ChatThread(_ context.Context, c agent.Chat) (int64, error) {
	if err := m.enter("ChatThread"); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	return m.threads[c], nil
}

// SetChatThread begins a conversation, unless the chat is in a later one.
func (m *Memory) SetChatThread(_ context.Context, c agent.Chat, thread int64) error {
	if err := m.enter("SetChatThread"); err != nil {
		return err
	}
	defer m.mu.Unlock()
	m.threads[c] = max(m.threads[c], thread)
	return nil
}

// OweTurn records that a chat is owed the answer of a turn.
func (m *Memory) OweTurn(_ context.Context, t agent.ChatTurn, holder string, lease time.Duration) (bool, error) {
	if err := m.enter("OweTurn"); err != nil {
		return false, err
	}
	defer m.mu.Unlock()
	if m.turns[t.TurnID] != nil {
		return false, nil
	}
	if holder == "" {
		lease = 0
	}
	t.CreatedAt = time.Now().UTC()
	m.turns[t.TurnID] = &owed{turn: t, holder: holder, until: time.Now().Add(lease)}
	return true, nil
}

// ClaimTurns takes hold of turns that are owed and that nobody holds.
func (m *Memory) ClaimTurns(_ context.Context, channel, account, holder string, lease time.Duration, limit int) ([]agent.ChatTurn, error) {
	if err := m.enter("ClaimTurns"); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var found []agent.ChatTurn
	for _, o := range m.sorted() {
		if o.settled || o.turn.Channel != channel || o.turn.Account != account || !o.until.Before(time.Now()) || len(found) == limit {
			continue
		}
		o.holder, o.until = holder, time.Now().Add(lease)
		found = append(found, copied(&o.turn))
	}
	return found, nil
}

func (m *Memory) sorted() []*owed {
	all := make([]*owed, 0, len(m.turns))
	for _, o := range m.turns {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *owed) int {
		return cmp.Or(a.turn.CreatedAt.Compare(b.turn.CreatedAt), cmp.Compare(a.turn.TurnID, b.turn.TurnID))
	})
	return all
}

func copied(t *agent.ChatTurn) agent.ChatTurn {
	c := *t
	c.Messages = slices.Clone(t.Messages)
	return c
}

// SaveTurn keeps how far an answer was shown, and the hold for another lease.
func (m *Memory) SaveTurn(_ context.Context, t *agent.ChatTurn, holder string, lease time.Duration) (bool, error) {
	if err := m.enter("SaveTurn"); err != nil {
		return false, err
	}
	defer m.mu.Unlock()
	o := m.turns[t.TurnID]
	if o == nil || o.settled || o.holder != holder {
		return false, nil
	}
	o.turn.Messages, o.turn.After = slices.Clone(t.Messages), max(o.turn.After, t.After)
	o.until = time.Now().Add(lease)
	if lease <= 0 {
		o.holder = ""
	}
	return true, nil
}

// SettleTurn records that nothing is owed any more.
func (m *Memory) SettleTurn(_ context.Context, id agent.TurnID, holder string) error {
	if err := m.enter("SettleTurn"); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if o := m.turns[id]; o != nil && o.holder == holder {
		o.settled = true
	}
	return nil
}

// Steal gives the hold of every turn to somebody else, as when a process was thought dead.
func (m *Memory) Steal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.turns {
		o.holder = "somebody else"
	}
}

// Owed is how many answers are owed to all chats.
func (m *Memory) Owed() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, o := range m.turns {
		if !o.settled {
			n++
		}
	}
	return n
}

// OwedTurns lists the turns that a chat is owed.
func (m *Memory) OwedTurns(_ context.Context, account string, c agent.Chat) ([]agent.ChatTurn, error) {
	if err := m.enter("OwedTurns"); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var found []agent.ChatTurn
	for _, o := range m.sorted() {
		if !o.settled && o.turn.Account == account && o.turn.Chat == c && len(found) < 100 {
			found = append(found, copied(&o.turn))
		}
	}
	return found, nil
}

// AskChat records a message that puts an approval to a chat.
func (m *Memory) AskChat(ctx context.Context, q agent.ChatQuestion) error {
	if err := m.enter("AskChat"); err != nil {
		return err
	}
	defer m.mu.Unlock()
	o := m.turns[q.TurnID]
	if o == nil {
		return agent.Errorf(agent.CodeNotFound, "", "turn %q is not owed", q.TurnID)
	}
	if slices.ContainsFunc(m.questions, func(k agent.ChatQuestion) bool {
		return k.Chat == q.Chat && k.Account == q.Account && k.MessageID == q.MessageID
	}) {
		return nil
	}
	q.Owner, q.Tenant, q.UserID, q.Allowed = o.turn.ChatID, o.turn.Tenant, o.turn.UserID, slices.Clone(q.Allowed)
	m.questions = append(m.questions, q)
	return ctx.Err()
}

// ChatQuestion returns what a message asked.
func (m *Memory) ChatQuestion(_ context.Context, account string, c agent.Chat, message int64) (agent.ChatQuestion, error) {
	if err := m.enter("ChatQuestion"); err != nil {
		return agent.ChatQuestion{}, err
	}
	defer m.mu.Unlock()
	for _, q := range m.questions {
		if q.Account == account && q.Chat == c && q.MessageID == message {
			return q, nil
		}
	}
	return agent.ChatQuestion{}, agent.Errorf(agent.CodeNotFound, "", "message %d asked nothing", message)
}

// TurnQuestions lists the messages that put approvals of a turn to chats.
func (m *Memory) TurnQuestions(_ context.Context, id agent.TurnID) ([]agent.ChatQuestion, error) {
	if err := m.enter("TurnQuestions"); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var found []agent.ChatQuestion
	for _, q := range m.questions {
		if q.TurnID == id && len(found) < 1000 {
			found = append(found, q)
		}
	}
	slices.SortFunc(found, func(a, b agent.ChatQuestion) int {
		return cmp.Or(cmp.Compare(a.ChatID, b.ChatID), cmp.Compare(a.MessageID, b.MessageID))
	})
	return found, nil
}
