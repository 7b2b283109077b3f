//! A history as text for people.

use std::fmt;

use super::history::{Event, History, Micros, Op, SECOND, What};

pub struct Line<'a> {
    pub history: &'a History,
    pub event: &'a Event,
}

impl Line<'_> {
    fn op(&self, f: &mut fmt::Formatter<'_>, op: &Op) -> fmt::Result {
        let owner = self.history.texts.get(op.owner as usize).map_or("?", String::as_str);
        let verb = format!("{:?}", op.verb).to_lowercase();
        let names: String = op.each().map(|op| name(op.name)).collect();
        write!(f, "{verb} {names} owner {owner} [{}] ballot {}", op.owner, op.ballot)?;
        f.write_str(if op.waits { " in line" } else { "" })
    }
}

/// A node, and the server to which its name led if this server has another number.
struct At(Op);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Op { node, server, .. } = self.0;
        if node == server { write!(f, "{node}") } else { write!(f, "{node}, server {server}") }
    }
}

fn name(name: u8) -> char {
    char::from(b'a' + name)
}

/// A time in seconds, with six decimals.
pub fn seconds(at: Micros) -> String {
    format!("{}.{:06}", at / SECOND, at % SECOND)
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>11} ", seconds(self.event.at))?;
        match self.event.what {
            What::Asked { process, ask, name: n, by, must } => {
                let must = if must { ", and must get it" } else { "" };
                write!(f, "p{process}  asks #{ask} for {} until {}{must}", name(n), seconds(by))
            }
            What::Acquired { process, ask, name: n, lease, token, until, shared, .. } => {
                let (until, reads) = (seconds(until), if shared { ", as a reader" } else { "" });
                write!(
                    f,
                    "p{process}  ACQUIRED {} (#{ask}) as lease {lease}, token {token}, until {until}{reads}",
                    name(n)
                )
            }
            What::First { process, lease, name: n, period } => {
                write!(f, "p{process}  lease {lease} is the first on {} in {period} us", name(n))
            }
            What::Undone { process, lease } => write!(f, "p{process}  undoes the period of lease {lease}"),
            What::Skipped { process, name: n, period, .. } => {
                write!(f, "p{process}  is told that somebody was the first on {} in {period} us", name(n))
            }
            What::Denied { process, name: n } => write!(f, "p{process}  is told that somebody has {}", name(n)),
            What::Yields { process, lease } => write!(f, "p{process}  lease {lease} is to be that of a reader"),
            What::HandsOn { process, lease } => write!(f, "p{process}  lease {lease} becomes a ticket"),
            What::Follows { process, lease, writer } => {
                write!(f, "p{process}  lease {lease} is that of the reader which was the writer of lease {writer}")
            }
            What::Proclaims { process, lease, value } => write!(f, "p{process}  lease {lease} proclaims v{value}"),
            What::Saw { process, observer, name: n, owner, token, value } => {
                let owner = self.history.texts.get(owner as usize).map_or("?", String::as_str);
                let value = value.map_or_else(|| "nothing".to_owned(), |value| format!("v{value}"));
                write!(f, "p{process}  observer {observer} sees {owner} lead {} by token {token}: {value}", name(n))
            }
            What::Unseen { process, observer } => write!(f, "p{process}  observer {observer} has not seen the last"),
            What::Counted { process, lease, permits } => {
                write!(f, "p{process}  lease {lease} is one of {permits} permits")
            }
            What::Shares { process, ask, name: n, lease } => {
                write!(f, "p{process}  has {} (#{ask}) as lease {lease} of its session", name(n))
            }
            What::Begun { process, ask } => write!(f, "p{process}  is granted a session (#{ask})"),
            What::HeldAmiss { process, name: n } => {
                write!(f, "p{process}  has a session that holds {}, or does not, and should not, or should", name(n))
            }
            What::Together { process, lease, other } => {
                write!(f, "p{process}  leases {lease} and {other} are of one session, where all is well for long")
            }
            What::Failed { process, ask, name: n, unavailable, kept_out } => {
                let why = match unavailable {
                    _ if kept_out => "kept out",
                    true => "unavailable",
                    false => "others have it",
                };
                write!(f, "p{process}  did not get {} (#{ask}): {why}", name(n))
            }
            What::Cancelled { process, ask, name: n } => write!(f, "p{process}  cancels #{ask} for {}", name(n)),
            What::Sample { process, name: n, lease, held, until } => {
                let held = if held { "held" } else { "not held" };
                write!(f, "p{process}  lease {lease} on {}: {held} until {}", name(n), seconds(until))
            }
            What::Released { process, name: n, lease } => {
                write!(f, "p{process}  RELEASES lease {lease} on {}", name(n))
            }
            What::Freed { process, name: n, lease } => {
                write!(f, "p{process}  is told that lease {lease} on {} is free", name(n))
            }
            What::LostTold { process, name: n, lease, expired } => {
                let why = if expired { "LOST by its deadline" } else { "LOST" };
                write!(f, "p{process}  is told that lease {lease} on {} is {why}", name(n))
            }
            What::LetGo { process, name: n, lease } => {
                write!(f, "p{process}  LETS GO of lease {lease} on {}, which it lost", name(n))
            }
            What::Revoked { process, name: n, by, .. } => {
                write!(f, "p{process}  REVOKED {}, which is over by {}", name(n), seconds(by))
            }
            What::Wrote { process, name: n, lease, token, taken, checked } => {
                let taken = if taken { "taken" } else { "refused" };
                let storage = if checked { "checking" } else { "plain" };
                write!(
                    f,
                    "p{process}  write to {storage} storage of {} by lease {lease}, token {token}: {taken}",
                    name(n)
                )
            }
            What::Submitted(op) => {
                write!(f, "p{} >n{}  ", op.process, op.node)?;
                self.op(f, &op)
            }
            What::Did(op, answer) => {
                write!(f, "n{}  (p{}, sent {}) ", At(op), op.process, seconds(op.sent))?;
                self.op(f, &op)?;
                write!(f, " -> {answer:?}")
            }
            What::Delivered(op, answer) => {
                write!(f, "p{} <n{}  {answer:?} to ", op.process, op.node)?;
                self.op(f, &op)
            }
            What::HandedOver(op) => {
                write!(f, "n{}  (p{}, sent {}) hands over by ", op.node, op.process, seconds(op.sent))?;
                self.op(f, &op)
            }
            What::Pushed(op) => {
                write!(f, "p{} <n{}  push of ", op.process, op.node)?;
                self.op(f, &op)
            }
            What::PlaceKept(op) => {
                write!(f, "n{}  keeps in line, after ", op.node)?;
                self.op(f, &op)
            }
            What::GrantedToOther(op) => {
                write!(f, "n{}  granted to another list ", op.server)?;
                self.op(f, &op)
            }
            other => write!(f, "{other:?}"),
        }
    }
}
