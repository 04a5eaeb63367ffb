package pictures_test

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

var pictures = flag.Bool("pictures", false, "replace the pictures in docs/images")

// preferences stores a user's preferences of the Web UI: the columns of the list, and a narrow menu.
const preferences = `localStorage.setItem('navOpen', 'false');
	localStorage.setItem('namespace-workflow-table-columns', JSON.stringify({default:
		['Status', 'Workflow ID', 'TurnstoneAgent', 'TurnstoneSession', 'TurnstoneTenant'].map((label) => ({label}))}));`

// withoutCodec removes the codec endpoint from the settings of the Web UI.
const withoutCodec = `const real = window.fetch; window.fetch = async (...args) => {
	const answer = await real(...args);
	if (!new URL(args[0]?.url ?? args[0], location.href).pathname.endsWith('/api/v1/settings')) return answer;
	return Response.json({...await answer.json(), Codec: undefined});
};`

// recordDownloads collects in window.downloads the text of each file that the page would have saved.
const recordDownloads = `window.downloads = []; HTMLAnchorElement.prototype.click = () => {};
	URL.createObjectURL = (blob) => { blob.text().then((text) => window.downloads.push(text)); return 'about:blank'; };`

// fits is a function that reports whether a block of code is wide enough for its content and for lines of 80 characters.
const fits = `((pre) => {
	if (!pre || pre.scrollWidth > pre.clientWidth) return false;
	const wide = pre.cloneNode();
	wide.textContent = 'x'.repeat(80);
	pre.after(wide);
	const whole = wide.scrollWidth <= wide.clientWidth;
	wide.remove();
	return whole;
})`

// turn opens a view of a turn and waits until a condition is true.
func (p *tab) turn(id agent.TurnID, view, condition string) {
	p.t.Helper()
	p.visit("/namespaces/default/workflows/turn%2F"+string(id), `/\/[0-9a-f-]{36}\/[a-z]+$/.test(location.pathname)`) // the UI finds the run
	p.visit(eval[string](p, `location.pathname.replace(/[^/]+$/, '')`)+view, condition)
}

func TestWebUI(t *testing.T) {
	dir := t.TempDir()
	if *pictures {
		dir = "../../docs/images"
	}
	s := launch(t)
	s.runTurns(t)
	b := browse(t, dir)
	t.Run("decoded", func(t *testing.T) { s.decoded(t, b) })
	t.Run("a child turn", func(t *testing.T) { s.child(t, b) })
	t.Run("a waiting turn", func(t *testing.T) { s.waiting(t, b) })
	t.Run("an offloaded input", func(t *testing.T) { s.offloaded(t, b) })
	t.Run("not decoded", func(t *testing.T) { s.notDecoded(t, b) })
	t.Run("origins", func(t *testing.T) { s.origins(t, b) })
}

func (s *stack) decoded(t *testing.T, b *browser) {
	p := b.open(t, s.ui, preferences)
	p.visit("/namespaces/default/workflows", says("TurnstoneSession", "turn/alert-1", "turn/flights-1", "desk-7"))
	p.picture("web-ui-list.png", 650)
	p.visit("/namespaces/default/workflows?query="+url.QueryEscape(`TurnstoneSession="trip-1"`), says("turn/flights-1", "1–2")+` && !`+says("turn/alert-1"))
	p.picture("web-ui-session.png", 440)
	p.turn(flights, "history", says("Found 3 rows", "BeginTurn", "turnstone-offline · step 1", "execute_pipeline(3 steps)", "turnstone-offline · step 2", "StoreTurn"))
	p.picture("web-ui-turn.png", 1510)
	p.turn(flights, "timeline", says("Found 3 rows", "BeginTurn", "CallModel • turnstone-offline · step 1", "CallModel • turnstone-offline · step 2", "StoreTurn"))
	p.picture("web-ui-timeline.png", 980)
	p.turn(flights, "search-attributes", says("TurnstoneTenant", "TurnstoneAgent", "analyst", "TurnstoneSession", "trip-1"))
	p.turn(flights, "user-metadata", says("fetch flights from NYC to LAX", "completed", "artifact://"))
}

// child shows a turn whose agent delegated to another agent.
func (s *stack) child(t *testing.T, b *browser) {
	p := b.open(t, s.ui, preferences)
	p.turn(errand, "timeline", says("BeginTurn", "BeginChild", "delegate_to_agent(analyst)", "StoreChild", "CallModel • turnstone-offline · step 2"))
	p.picture("web-ui-child.png", 1020)
	turn, err := s.client.Turn(t.Context(), errand)
	require.NoError(t, err)
	require.Len(t, turn.Output.ToolCalls, 1)
	p.turn(errand, "relationships", says("turn/errand-1", "Child Count"))
}

func (s *stack) waiting(t *testing.T, b *browser) {
	turn, err := s.client.Turn(t.Context(), alert)
	require.NoError(t, err)
	require.Len(t, turn.Pending, 1)
	p := b.open(t, s.ui, preferences)
	p.turn(alert, "user-metadata", says("waiting for a person", "patch_workflow", "not inherently safe", "temporal workflow update execute", turn.Pending[0].ApprovalID))
	p.until(`[...document.querySelectorAll('iframe')].some((f) => ` + fits + `(f.contentDocument.querySelector('pre')))`)
	p.picture("web-ui-waiting.png", 720)
}

// offloaded shows a turn whose input is in the blob store. The page shows the reference, and downloads the decrypted input.
func (s *stack) offloaded(t *testing.T, b *browser) {
	p := b.open(t, s.ui, preferences+recordDownloads)
	p.turn(long, "history", says("External Payloads Size", `"driverName"`, "Found 3 rows", "StoreTurn")+` && !`+says(policy))
	p.picture("web-ui-offloaded.png", 720)
	p.click(`[...document.querySelectorAll('button')].find((b) => /^\s*[\d.]+ KB\s*$/.test(b.textContent))`)
	p.until(`window.downloads.length > 0`)
	require.Contains(t, eval[string](p, `window.downloads[0]`), policy)
}

func (s *stack) notDecoded(t *testing.T, b *browser) {
	p := b.open(t, s.ui, preferences+withoutCodec)
	p.turn(flights, "history", says("turn/flights-1", "CallModel")+` && text().match(/"[A-Za-z0-9+/]{80}/g)?.length >= 2`) // input and result
	require.False(t, eval[bool](p, `(`+visibleText+`).includes('fetch flights')`))
	p.picture("web-ui-sealed.png", 670)
}

// origins checks which pages may send requests to the codec server.
func (s *stack) origins(t *testing.T, b *browser) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
	}))
	t.Cleanup(elsewhere.Close)
	for _, page := range []struct{ base, path, want string }{
		{s.ui, "/healthz", "200"},
		{elsewhere.URL, "/", "TypeError"}, // the browser does not send the request
		{s.api, "/", "403"},               // the console's page sends the request, and the codec server refuses it
	} {
		p := b.open(t, page.base, "")
		p.visit(page.path, `document.readyState === 'complete'`)
		for _, door := range []string{"decode?preserveStorageRefs=true", "encode", "download?preserveStorageRefs=true"} {
			require.Equal(t, page.want, eval[string](p, `fetch('`+s.api+`/codec/`+door+`', {method: 'POST', body: '{"payloads":[]}',
				headers: {'Content-Type': 'application/json', 'X-Namespace': 'default', Authorization: 'Bearer x'}}).then((r) => String(r.status), (e) => e.name)`),
				"%s from %s", door, page.base)
		}
	}
}
