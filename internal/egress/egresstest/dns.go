package egresstest

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// record holds the addresses of a name, or the name that it is an alias of.
type record struct {
	addresses []string
	cname     string
	rotates   bool // each answer has only the next one of the addresses
}

// zone returns the records of the world's DNS. Any other name is 127.0.0.1.
func (w *World) zone() map[string]record {
	host, _, _ := net.SplitHostPort(w.address)
	return map[string]record{
		"aaaa.attack.example.":      {addresses: []string{"::1"}},
		"mapped.attack.example.":    {addresses: []string{"::ffff:127.0.0.1"}},
		"nat64.attack.example.":     {addresses: []string{"64:ff9b::7f00:1"}},
		"both.attack.example.":      {addresses: []string{"127.0.0.1", "::1"}},
		"private.attack.example.":   {addresses: []string{"10.0.0.1", "192.168.0.1"}},
		"zero.attack.example.":      {addresses: []string{"0.0.0.0"}},
		"cname.attack.example.":     {cname: "localhost."},
		"chain.attack.example.":     {cname: "cname.attack.example."},
		"metadata.google.internal.": {addresses: []string{"169.254.169.254"}},
		"rebind.attack.example.":    {addresses: []string{host, "127.0.0.1"}, rotates: true},
	}
}

// dnsServer answers DNS queries.
type dnsServer struct {
	zone map[string]record

	mu    sync.Mutex
	asked map[string]int // by name and type: number of queries for a rotating name
}

// startDNS starts the DNS server and returns its address.
func (w *World) startDNS(t *testing.T) string {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	n := &dnsServer{zone: w.zone(), asked: map[string]int{}}
	done := make(chan struct{})
	t.Cleanup(func() { _ = conn.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			size, from, err := conn.ReadFrom(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if reply := n.reply(buf[:size]); reply != nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	}()
	return conn.LocalAddr().String()
}

func (n *dnsServer) reply(question []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	m.Answers = n.answers(q)
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return out
}

// answers returns the records for a query. It follows aliases, because resolvers ask for recursion.
func (n *dnsServer) answers(q dnsmessage.Question) []dnsmessage.Resource {
	var out []dnsmessage.Resource
	name := q.Name
	for range 5 {
		r, ok := n.zone[name.String()]
		if !ok {
			r = record{addresses: []string{"127.0.0.1"}}
		}
		if r.cname == "" {
			for _, ip := range n.nextAddresses(name.String(), q.Type, r) {
				if a, ok := addressRecord(name, q.Type, ip); ok {
					out = append(out, a)
				}
			}
			return out
		}
		to := dnsmessage.MustNewName(r.cname)
		out = append(out, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: name, Type: dnsmessage.TypeCNAME, Class: q.Class}, Body: &dnsmessage.CNAMEResource{CNAME: to},
		})
		name = to
	}
	return out
}

// nextAddresses returns the addresses of a name, or the next one of a rotating name. A and AAAA queries are counted separately.
func (n *dnsServer) nextAddresses(name string, kind dnsmessage.Type, r record) []string {
	if !r.rotates {
		return r.addresses
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	i := n.asked[name+kind.String()]
	n.asked[name+kind.String()]++
	return r.addresses[i%len(r.addresses) : i%len(r.addresses)+1]
}

func addressRecord(name dnsmessage.Name, kind dnsmessage.Type, text string) (dnsmessage.Resource, bool) {
	ip := netip.MustParseAddr(text)
	r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: name, Type: kind, Class: dnsmessage.ClassINET}}
	switch {
	case ip.Is4() && kind == dnsmessage.TypeA:
		r.Body = &dnsmessage.AResource{A: ip.As4()}
	case !ip.Is4() && kind == dnsmessage.TypeAAAA:
		r.Body = &dnsmessage.AAAAResource{AAAA: ip.As16()}
	default:
		return r, false
	}
	return r, true
}
