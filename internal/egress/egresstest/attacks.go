package egresstest

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// Attack is a URL that a tool must refuse, or whose response must cost a bounded time and size.
type Attack struct {
	Name   string
	URL    string
	Codes  []agent.Code // allowed codes of the tool's error
	Costly bool         // whether the request is sent and the response is costly
}

// refused lists the codes of a request that is not sent.
func refused() []agent.Code { return []agent.Code{agent.CodeInvalid, agent.CodeDenied} }

// bounded lists the codes of an answer that exceeds a bound, or that is invalid as far as it arrived.
func bounded() []agent.Code {
	return []agent.Code{agent.CodeOverflow, agent.CodeUnavailable, agent.CodeInvalid}
}

// Attacks returns the attacks in a world.
func (w *World) Attacks() []Attack {
	var all []Attack
	for _, kind := range [][]Attack{w.addresses(), w.spellings(), w.schemes(), w.names(), w.redirects()} {
		all = append(all, kind...)
	}
	for i := range all {
		all[i].Codes = refused()
	}
	costly := w.costs()
	for i := range costly {
		costly[i].Codes, costly[i].Costly = bounded(), true
	}
	return append(all, costly...)
}

// hostAttacks returns attacks on hosts, at the port of both servers.
func (w *World) hostAttacks(kind string, hosts ...string) []Attack {
	attacks := make([]Attack, 0, len(hosts))
	for _, host := range hosts {
		attacks = append(attacks, Attack{Name: kind + "/" + host, URL: "http://" + host + ":" + w.port + "/x"})
	}
	return attacks
}

func (w *World) addresses() []Attack {
	attacks := w.hostAttacks("address", "127.0.0.1", "127.8.9.1", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.0.1", "224.0.0.1", "255.255.255.255",
		"169.254.169.254", "100.100.100.200", "192.0.0.192", "198.18.0.1",
		"[::1]", "[::]", "[fd00::1]", "[fd00:ec2::254]", "[fe80::1]", "[fe80::1%25lo]", "[fec0::1]", "[ff02::1]", "[100::1]", "[2001:db8::1]")
	return append(attacks, w.hostAttacks("translated",
		"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "[::ffff:0:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
		"[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[fe80::5efe:7f00:1]")...)
}

// spellings returns other ways to write an address, and URLs that look like one host and mean another.
func (w *World) spellings() []Attack {
	attacks := w.hostAttacks("number", "2130706433", "0177.0.0.1", "017700000001", "0x7f000001", "0x7f.0.0.1", "0X7F.0.0.1", "0x7f.1", "127.1", "127.0.1", "0",
		"127.000.000.001", "127.0.0.01", "4294967297", "127.0.0.1.", "127.0.0.1..", "127.0.0.0x1")
	attacks = append(attacks, w.hostAttacks("script", "127。0。0。1", "127．0．0．1", "１２７.0.0.1", "①②⑦.⓪.⓪.①", "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "local\u00adhost", "127%2e0%2e0%2e1")...)
	for _, text := range []string{
		"http://{front}@{canary}/x", "http://{front}:x@{canary}/x", "http://x:{front}@{canary}/x", "http://{canary}#@{front}/x",
		"http://{canary}?@{front}/x", `http://{canary}\@{front}/x`, `http://{front}\@{canary}/x`, "http://{front}%40{canary}/x",
		"http://{front}%2f@{canary}/x", "http://{canary}%23@{front}/x", "http://{canary} @{front}/x", "http://{front}@{front}@{canary}/x",
		"http://{canary}%00.{front}/x", "http://{canary}%0d%0aHost:{front}/x", "http://{canary}\r\n/x", "http://{canary}\t/x", "http://\t{canary}/x",
		"http:{canary}/x", "http:/{canary}/x", "http:///{canary}/x", "http:////{canary}/x", `http:\\{canary}\x`, "//{canary}/x", `\\{canary}\x`,
		"http://[{canary}]/x", "http://[::1/x", "http://{canary}:{port}/x", "http://127.0.0.1:0{port}/x", "http://127.0.0.1:+{port}/x",
		"HTTP://{canary}/x", " http://{canary}/x", "http://{canary}./x",
	} {
		attacks = append(attacks, Attack{Name: "spelling/" + text, URL: w.fill(text)})
	}
	return attacks
}

func (w *World) schemes() []Attack {
	var attacks []Attack
	for _, text := range []string{
		"file:///etc/passwd", "file://{canary}/etc/passwd", "file:/etc/passwd", "gopher://{canary}/_GET%20/", "ftp://{canary}/x", "dict://{canary}/x",
		"ldap://{canary}/x", "sftp://{canary}/x", "tftp://{canary}/x", "jar:http://{canary}!/x", "data:application/json,[]", "javascript:1",
		"unix:///run/docker.sock", "http+unix://%2frun%2fdocker.sock/x", "ws://{canary}/x", "netdoc:///etc/passwd", "about:blank", "", "://{canary}", "http://",
	} {
		attacks = append(attacks, Attack{Name: "scheme/" + text, URL: w.fill(text)})
	}
	return attacks
}

// names returns names that the world's DNS server resolves to addresses that are not public.
func (w *World) names() []Attack {
	return w.hostAttacks("name", "localhost", "LOCALHOST", "localhost.", "sub.localhost", "localhost.localdomain", "127.0.0.1.attack.example",
		"a.attack.example", "aaaa.attack.example", "mapped.attack.example", "nat64.attack.example", "both.attack.example", "private.attack.example",
		"cname.attack.example", "cname.attack.example.", "chain.attack.example", "zero.attack.example", "metadata.google.internal", "rebound.attack.example")
}

// redirects returns redirects of the front.
func (w *World) redirects() []Attack {
	var attacks []Attack
	add := func(name string, code int, to string) {
		attacks = append(attacks, Attack{Name: fmt.Sprintf("redirect/%d %s", code, name), URL: w.Redirect(code, w.fill(to))})
	}
	for _, code := range []int{
		http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
	} {
		add("loopback", code, "http://{canary}/x")
	}
	for _, to := range []string{
		"https://{canary}/x", "//{canary}/x", "http://localhost:{port}/x", "http://a.attack.example:{port}/x", "http://[::ffff:127.0.0.1]:{port}/x",
		"http://2130706433:{port}/x", "http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/", "file:///etc/passwd", "gopher://{canary}/_x",
		"data:application/json,[]", "http://{front}@{canary}/x", `http://{canary}\@{front}/x`, "http://0.0.0.0:{port}/x", "http://127。0。0。1:{port}/x",
	} {
		add(to, http.StatusFound, to)
	}
	attacks = append(attacks, Attack{Name: "redirect/twice", URL: w.Redirect(http.StatusFound, w.Redirect(http.StatusFound, w.fill("http://{canary}/x")))})
	return attacks
}

// costs returns answers of the front that never end, come too slowly, or are larger than they seem.
func (w *World) costs() []Attack {
	var attacks []Attack
	for _, name := range costlyAnswers() {
		attacks = append(attacks, Attack{Name: "cost/" + name, URL: w.front("/" + name)})
	}
	return attacks
}

// fill replaces the placeholders of the servers in a URL.
func (w *World) fill(text string) string {
	return strings.NewReplacer("{canary}", "127.0.0.1:"+w.port, "{front}", w.address, "{port}", w.port).Replace(text)
}

// front returns a URL of the front.
func (w *World) front(path string) string { return "http://" + w.address + path }

// Redirect returns a URL of the front that redirects, whatever a tool appends to it.
func (w *World) Redirect(code int, to string) string {
	return w.front(fmt.Sprintf("/redirect/%d/%s/", code, base64.RawURLEncoding.EncodeToString([]byte(to))))
}
