package postgres_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/channel/telegram"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

var _ telegram.Store = (*postgres.Store)(nil)

// TestTelegramStore checks that the store implements the contract of [telegram.Store].
func TestTelegramStore(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for name, run := range map[string]func(t *testing.T, s *bench){
		"a code links once": testCodeLinksOnce, "bad codes": testBadCodes, "guesses are bounded": testGuessesAreBounded,
		"one code, many chats": testOneCodeLinksOneChat, "a chat has one link": testChatHasOneLink,
		"chats of a user are bounded": testChatsOfAUserAreBounded, "links by page": testLinksByPage, "unlink": testUnlink,
		"conversations only move forward": testConversationsOnlyMoveForward, "an answer is owed once": testAnswerIsOwedOnce,
		"answers are claimed once": testAnswersAreClaimedOnce, "a lost lease saves nothing": testLostLeaseSavesNothing, "questions": testQuestions,
	} {
		t.Run(name, func(t *testing.T) {
			b.exec(`TRUNCATE chat_links, chat_link_codes, chat_link_failures, chat_threads, chat_turns, chat_questions`)
			run(t, b)
		})
	}
}

func telegramChat(id string) agent.Chat { return agent.Chat{Channel: "telegram", ChatID: id} }

// offerCode creates a code for a user and returns it.
func offerCode(t *testing.T, s *bench, tenant, user string, lifetime time.Duration) string {
	t.Helper()
	code := rand.Text()
	require.NoError(t, s.CreateLinkCode(t.Context(), agent.LinkCode{
		Hash: agent.HashLinkCode(code), ExpiresAt: time.Now().Add(lifetime),
		Link: agent.Link{
			Chat: agent.Chat{Channel: "telegram"}, Tenant: tenant, UserID: user, Role: "clerk", Scopes: []string{"turns.run", "turns.read:x*"}, LinkedBy: "ops",
		},
	}))
	return code
}

func testCodeLinksOnce(t *testing.T, s *bench) {
	code := offerCode(t, s, "acme", "ann", time.Minute)
	_, err := s.ChatLink(t.Context(), telegramChat("1"))
	requireCode(t, agent.CodeNotFound, err)

	made, err := s.RedeemLink(t.Context(), telegramChat("1"), " "+strings.ToLower(code)+"\n")
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), made.LinkedAt, time.Minute)
	kept, err := s.ChatLink(t.Context(), telegramChat("1"))
	require.NoError(t, err)
	require.Equal(t, made, kept)
	made.LinkedAt = time.Time{}
	require.Equal(t, agent.Link{
		Chat: telegramChat("1"), Tenant: "acme", UserID: "ann", Role: "clerk", Scopes: []string{"turns.run", "turns.read:x*"}, LinkedBy: "ops",
	}, made)

	again, err := s.RedeemLink(t.Context(), telegramChat("1"), code)
	require.NoError(t, err, "the same chat sends the code again")
	require.Equal(t, kept, again)
	_, err = s.RedeemLink(t.Context(), telegramChat("2"), code)
	requireCode(t, agent.CodeNotFound, err)
	require.ErrorIs(t, err, agent.ErrLinkCode)

	require.NoError(t, s.Unlink(t.Context(), "acme", telegramChat("1")))
	_, err = s.RedeemLink(t.Context(), telegramChat("1"), code)
	requireCode(t, agent.CodeNotFound, err)
}

func testBadCodes(t *testing.T, s *bench) {
	late := offerCode(t, s, "acme", "ann", -time.Second)
	for name, code := range map[string]string{"expired": late, "unknown": rand.Text(), "empty": "", "odd": "\x00\xff'; --"} {
		_, err := s.RedeemLink(t.Context(), telegramChat(name), code)
		requireCode(t, agent.CodeNotFound, err)
		require.ErrorIs(t, err, agent.ErrLinkCode)
	}
	code := offerCode(t, s, "acme", "ann", time.Minute)
	_, err := s.RedeemLink(t.Context(), agent.Chat{Channel: "pigeon", ChatID: "1"}, code)
	requireCode(t, agent.CodeNotFound, err)
}

func testGuessesAreBounded(t *testing.T, s *bench) {
	code := offerCode(t, s, "acme", "ann", time.Minute)
	for range agent.MaxLinkFailures {
		_, err := s.RedeemLink(t.Context(), telegramChat("1"), rand.Text())
		requireCode(t, agent.CodeNotFound, err)
	}
	for _, guess := range []string{rand.Text(), code} {
		_, err := s.RedeemLink(t.Context(), telegramChat("1"), guess)
		requireCode(t, agent.CodeRateLimited, err)
		e, _ := errors.AsType[*agent.Error](err)
		require.Greater(t, e.RetryAfter, agent.LinkWindow/2)
		require.LessOrEqual(t, e.RetryAfter, agent.LinkWindow)
	}
	_, err := s.RedeemLink(t.Context(), telegramChat("2"), code)
	require.NoError(t, err, "failures are counted for each chat")
}

func testOneCodeLinksOneChat(t *testing.T, s *bench) {
	code := offerCode(t, s, "acme", "ann", time.Minute)
	refused := slices.DeleteFunc(atOnce(8, func(i int) error {
		_, err := s.RedeemLink(t.Context(), telegramChat(fmt.Sprint(i)), code)
		return err
	}), func(err error) bool { return err == nil })
	require.Len(t, refused, 7)
}

func testChatHasOneLink(t *testing.T, s *bench) {
	for _, user := range []string{"ann", "bob"} {
		_, err := s.RedeemLink(t.Context(), telegramChat("1"), offerCode(t, s, "acme", user, time.Minute))
		require.NoError(t, err)
	}
	l, err := s.ChatLink(t.Context(), telegramChat("1"))
	require.NoError(t, err)
	require.Equal(t, "bob", l.UserID)
	page, err := s.Links(t.Context(), agent.LinkQuery{Tenant: "acme"})
	require.NoError(t, err)
	require.Len(t, page.Links, 1)
}

func testChatsOfAUserAreBounded(t *testing.T, s *bench) {
	for i := range agent.MaxUserLinks {
		_, err := s.RedeemLink(t.Context(), telegramChat(fmt.Sprint(i)), offerCode(t, s, "acme", "ann", time.Minute))
		require.NoError(t, err)
	}
	code := offerCode(t, s, "acme", "ann", time.Minute)
	_, err := s.RedeemLink(t.Context(), telegramChat("one more"), code)
	requireCode(t, agent.CodeConflict, err)
	_, err = s.RedeemLink(t.Context(), telegramChat("0"), code)
	require.NoError(t, err, "a chat that is linked again counts once")
}

func testLinksByPage(t *testing.T, s *bench) {
	for i := range 5 {
		_, err := s.RedeemLink(t.Context(), telegramChat(fmt.Sprint(i)), offerCode(t, s, "acme", fmt.Sprintf("u%d", i%2), time.Minute))
		require.NoError(t, err)
	}
	_, err := s.RedeemLink(t.Context(), telegramChat("9"), offerCode(t, s, "evil", "u0", time.Minute))
	require.NoError(t, err)
	walk := func(q agent.LinkQuery) (ids []string) {
		for {
			page, err := s.Links(t.Context(), q)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.Links), max(q.PageSize, 1))
			for _, l := range page.Links {
				require.Equal(t, "acme", l.Tenant)
				ids = append(ids, l.ChatID)
			}
			if page.Next == "" {
				return ids
			}
			q.PageToken = page.Next
		}
	}
	require.Equal(t, []string{"0", "1", "2", "3", "4"}, walk(agent.LinkQuery{Tenant: "acme", PageSize: 2}))
	require.Equal(t, []string{"1", "3"}, walk(agent.LinkQuery{Tenant: "acme", UserID: "u1", Channel: "telegram", PageSize: 2}))
	require.Empty(t, walk(agent.LinkQuery{Tenant: "acme", Channel: "pigeon", PageSize: 2}))
}

func testUnlink(t *testing.T, s *bench) {
	_, err := s.RedeemLink(t.Context(), telegramChat("1"), offerCode(t, s, "acme", "ann", time.Minute))
	require.NoError(t, err)
	requireCode(t, agent.CodeNotFound, s.Unlink(t.Context(), "evil", telegramChat("1")))
	requireCode(t, agent.CodeNotFound, s.Unlink(t.Context(), "acme", telegramChat("2")))
	before, err := s.ChatThread(t.Context(), telegramChat("1"))
	require.NoError(t, err)
	require.NoError(t, s.Unlink(t.Context(), "acme", telegramChat("1")))
	after, err := s.ChatThread(t.Context(), telegramChat("1"))
	require.NoError(t, err)
	require.Greater(t, after, before, "the next person gets a new conversation")
	_, err = s.ChatLink(t.Context(), telegramChat("1"))
	requireCode(t, agent.CodeNotFound, err)
	requireCode(t, agent.CodeNotFound, s.Unlink(t.Context(), "acme", telegramChat("1")))
}

func testConversationsOnlyMoveForward(t *testing.T, s *bench) {
	for _, step := range []struct{ set, want int64 }{{0, 0}, {7, 7}, {7, 7}, {3, 7}, {9, 9}} {
		require.NoError(t, s.SetChatThread(t.Context(), telegramChat("1"), step.set))
		got, err := s.ChatThread(t.Context(), telegramChat("1"))
		require.NoError(t, err)
		require.Equal(t, step.want, got)
	}
	other, err := s.ChatThread(t.Context(), telegramChat("2"))
	require.NoError(t, err)
	require.Zero(t, other)
}

const chatAccount, longLease = "42", time.Hour

func oweAnswer(t *testing.T, s *bench, id, chatID, holder string) {
	t.Helper()
	fresh, err := s.OweTurn(t.Context(), agent.ChatTurn{
		Chat: telegramChat(chatID), Account: chatAccount, TurnID: agent.TurnID(id), Tenant: "acme", UserID: "ann",
	}, holder, longLease)
	require.NoError(t, err)
	require.True(t, fresh)
}

func testAnswerIsOwedOnce(t *testing.T, s *bench) {
	oweAnswer(t, s, "t1", "1", "me")
	oweAnswer(t, s, "t2", "1", "me")
	oweAnswer(t, s, "t3", "2", "me")
	for _, holder := range []string{"me", "", "you"} {
		fresh, err := s.OweTurn(t.Context(), agent.ChatTurn{Chat: telegramChat("1"), Account: chatAccount, TurnID: "t1", Tenant: "acme"}, holder, longLease)
		require.NoError(t, err)
		require.False(t, fresh)
	}
	owed, err := s.OwedTurns(t.Context(), chatAccount, telegramChat("1"))
	require.NoError(t, err)
	require.Len(t, owed, 2)
	require.WithinDuration(t, time.Now(), owed[0].CreatedAt, time.Minute)
	owed[0].CreatedAt, owed[0].Messages = time.Time{}, nil
	require.Equal(t, agent.ChatTurn{Chat: telegramChat("1"), Account: chatAccount, TurnID: "t1", Tenant: "acme", UserID: "ann"}, owed[0])

	require.NoError(t, s.SettleTurn(t.Context(), "t1", "you"))
	require.NoError(t, s.SettleTurn(t.Context(), "t1", "me"))
	require.NoError(t, s.SettleTurn(t.Context(), "t1", "me"))
	require.NoError(t, s.SettleTurn(t.Context(), "t2", "you"))
	owed, err = s.OwedTurns(t.Context(), chatAccount, telegramChat("1"))
	require.NoError(t, err)
	require.Len(t, owed, 1)
	require.Equal(t, agent.TurnID("t2"), owed[0].TurnID)
	fresh, err := s.OweTurn(t.Context(), agent.ChatTurn{Chat: telegramChat("1"), Account: chatAccount, TurnID: "t1", Tenant: "acme"}, "me", longLease)
	require.NoError(t, err)
	require.False(t, fresh, "a settled turn is not recorded again")
	none, err := s.OwedTurns(t.Context(), "another bot", telegramChat("1"))
	require.NoError(t, err)
	require.Empty(t, none)
}

func claimAnswers(t *testing.T, s *bench, holder string, limit int) (ids []string) {
	t.Helper()
	found, err := s.ClaimTurns(t.Context(), "telegram", chatAccount, holder, longLease, limit)
	require.NoError(t, err)
	for i := range found {
		ids = append(ids, string(found[i].TurnID))
	}
	return ids
}

func testAnswersAreClaimedOnce(t *testing.T, s *bench) {
	for _, id := range []string{"t1", "t2", "t3", "t4"} {
		oweAnswer(t, s, id, "1", "")
	}
	oweAnswer(t, s, "held", "1", "me")
	none, err := s.ClaimTurns(t.Context(), "telegram", "another bot", "you", longLease, 10)
	require.NoError(t, err)
	require.Empty(t, none)

	var first []string
	require.Eventually(t, func() bool { // the hold of nobody has always expired
		first = append(first, claimAnswers(t, s, "you", 2-len(first))...)
		return len(first) == 2
	}, 30*time.Second, 5*time.Millisecond)
	require.Equal(t, []string{"t1", "t2"}, first, "the oldest")
	claimed := make([][]agent.ChatTurn, 4)
	require.NoError(t, errors.Join(atOnce(len(claimed), func(i int) (err error) {
		claimed[i], err = s.ClaimTurns(t.Context(), "telegram", chatAccount, fmt.Sprint("holder ", i), longLease, 10)
		return err
	})...))
	require.Len(t, slices.Concat(claimed...), 2, "t3 and t4, each once")
	require.Empty(t, claimAnswers(t, s, "you", 10))

	held, err := s.SaveTurn(t.Context(), &agent.ChatTurn{TurnID: "t1", Messages: []int64{5, 6}, After: 12}, "you", 0)
	require.NoError(t, err)
	require.True(t, held)
	var again []agent.ChatTurn
	require.Eventually(t, func() bool {
		again, err = s.ClaimTurns(t.Context(), "telegram", chatAccount, "me", longLease, 10)
		return err != nil || len(again) > 0
	}, 30*time.Second, 5*time.Millisecond)
	require.NoError(t, err)
	require.Len(t, again, 1)
	require.Equal(t, []int64{5, 6}, again[0].Messages)
	require.EqualValues(t, 12, again[0].After)
}

func testLostLeaseSavesNothing(t *testing.T, s *bench) {
	oweAnswer(t, s, "t1", "1", "me")
	save := func(holder string, lease time.Duration, messages ...int64) bool {
		held, err := s.SaveTurn(t.Context(), &agent.ChatTurn{TurnID: "t1", Messages: messages, After: int64(len(messages))}, holder, lease)
		require.NoError(t, err)
		return held
	}
	require.True(t, save("me", longLease, 1, 2))
	require.False(t, save("you", longLease, 9))
	require.True(t, save("me", longLease, 1), "a message was removed")
	owed, err := s.OwedTurns(t.Context(), chatAccount, telegramChat("1"))
	require.NoError(t, err)
	require.Equal(t, []int64{1}, owed[0].Messages)
	require.EqualValues(t, 2, owed[0].After, "the position does not move back")
	require.True(t, save("me", 0, 1))
	require.False(t, save("me", longLease, 1), "the turn was released")
	require.NoError(t, s.SettleTurn(t.Context(), "t1", "me"))
	owed, err = s.OwedTurns(t.Context(), chatAccount, telegramChat("1"))
	require.NoError(t, err)
	require.Len(t, owed, 1, "a former holder cannot settle the turn")
}

func testQuestions(t *testing.T, s *bench) {
	q := agent.ChatQuestion{
		Chat: telegramChat("1"), Account: chatAccount, MessageID: 7, TurnID: "t1", ApprovalID: "t1.1.c", Tool: "send_mail", Owner: "1", Tenant: "acme", UserID: "ann",
		Allowed: []agent.DecisionKind{agent.DecisionApprove, agent.DecisionReject},
	}
	requireCode(t, agent.CodeNotFound, s.AskChat(t.Context(), q))
	oweAnswer(t, s, "t1", "1", "me")
	require.NoError(t, s.AskChat(t.Context(), q))
	require.NoError(t, s.AskChat(t.Context(), q), "again")
	elsewhere := q
	elsewhere.ChatID, elsewhere.MessageID, elsewhere.Allowed = "-100", 8, nil
	require.NoError(t, s.AskChat(t.Context(), elsewhere))

	got, err := s.ChatQuestion(t.Context(), chatAccount, telegramChat("1"), 7)
	require.NoError(t, err)
	require.Equal(t, q, got)
	for _, miss := range []struct {
		account, chat string
		message       int64
	}{{"43", "1", 7}, {chatAccount, "2", 7}, {chatAccount, "1", 8}} {
		_, err := s.ChatQuestion(t.Context(), miss.account, telegramChat(miss.chat), miss.message)
		requireCode(t, agent.CodeNotFound, err)
	}
	all, err := s.TurnQuestions(t.Context(), "t1")
	require.NoError(t, err)
	require.Equal(t, []agent.ChatQuestion{elsewhere, q}, all)
	none, err := s.TurnQuestions(t.Context(), "t2")
	require.NoError(t, err)
	require.Empty(t, none)
}
