// Package egress is the one way out for HTTP requests made on behalf of a model. A model chooses the URL, so the URL
// is hostile until proven otherwise:
//
//   - Only http and https, without user information, to a host on the allow-list (no list: any public host).
//   - The address is judged after DNS resolution, in the dialer's control hook: the very address that is about to be connected to,
//     for every connection, that of a redirect included. A name that resolves differently the second time gains nothing.
//   - Private, loopback, link-local, shared, multicast, reserved and translated (NAT64, 6to4, Teredo, IPv4-mapped) addresses are
//     refused unless the configuration allows them.
//   - Whole-request time, header time and size, response size (decompressed), redirects and connections are bounded.
//   - No proxy from the environment, no cookies, no Referer; a redirect to another origin takes no credentials along, and one of a
//     request with credentials (see [WithCredentials]) from https to http is refused.
//
// The table of special-purpose addresses is code.dny.dev/ssrf's, generated from the IANA registries: the registries change, and a
// list typed by hand is what attackers hope for. The rest is ours because that library has no allow-list by port or by name.
//
// Errors are [agent.Error] values that name the host and nothing else of the URL: paths and queries carry secrets.
package egress
