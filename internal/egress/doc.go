// Package egress sends all HTTP requests that are made for a model. The model chooses the URL, so the URL is not trusted:
//
//   - Only http and https, without user information, to a host on the allow-list (no list: any public host).
//   - The address is checked after DNS resolution, in the dialer's control hook. That is the address of the connection, also for a redirect. So a name
//     that resolves differently the second time cannot bypass the check.
//   - Private, loopback, link-local, shared, multicast, reserved and translated (NAT64, 6to4, Teredo, IPv4-mapped) addresses are
//     refused unless the configuration allows them.
//   - Whole-request time, header time and size, response size (decompressed), redirects and connections are bounded.
//   - No proxy from the environment, no cookies, no Referer. A redirect to another origin does not contain credentials, and a redirect of a request
//     with credentials (see [WithCredentials]) from https to http is refused.
//   - Credentials that a server repeats are masked in its response.
//
// The table of special-purpose addresses is that of code.dny.dev/ssrf, which is generated from the IANA registries. That library has no allow-list by
// port or by name, so the other checks are in this package.
//
// Errors are [agent.Error] values that name only the host of the URL, because paths and queries may contain secrets.
package egress
