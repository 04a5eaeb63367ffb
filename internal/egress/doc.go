// Package egress sends all HTTP requests that are made on behalf of a model. A model chooses the URL, so the URL is not trusted:
//
//   - Only http and https, without user information, to a host on the allow-list (no list: any public host).
//   - The address is checked after DNS resolution, in the dialer's control hook: it is the address that the connection is made to, also for a
//     redirect. So a name that resolves differently the second time gains nothing.
//   - Private, loopback, link-local, shared, multicast, reserved and translated (NAT64, 6to4, Teredo, IPv4-mapped) addresses are
//     refused unless the configuration allows them.
//   - Whole-request time, header time and size, response size (decompressed), redirects and connections are bounded.
//   - No proxy from the environment, no cookies, no Referer. A redirect to another origin takes no credentials along, and one of a
//     request with credentials (see [WithCredentials]) from https to http is refused.
//   - Credentials that a server repeats are masked in its response.
//
// The table of special-purpose addresses is code.dny.dev/ssrf's, generated from the IANA registries. The rest is written here because that
// library has no allow-list by port or by name.
//
// Errors are [agent.Error] values that name only the host of the URL: paths and queries may carry secrets.
package egress
