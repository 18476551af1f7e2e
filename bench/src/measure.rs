//! What is measured, and how. Every figure comes with its unit in its name.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use milk_testkit::ModelServer;
use tokio::runtime::Runtime;

use crate::agent::{Agent, Command, Line};
use crate::memory::Memory;

/// Sessions that run a turn at the same time.
const SESSIONS: usize = 50;
/// The deltas of such a turn, and how many a second.
const PACED: (u32, u32) = (100, 50);
/// Deltas of the stream whose latency is measured, and how many a second.
const LATENCY: (u32, u32) = (300, 100);
/// Time for a process to settle before its memory is read.
const SETTLE: Duration = Duration::from_millis(500);

/// One agent's figures. Times are medians unless they say otherwise.
#[derive(Debug, Default)]
pub struct Figures {
    pub initialize_ms: f64,
    pub session_ms: f64,
    pub first_request_us: f64,
    pub request_us: f64,
    pub delta_us: f64,
    pub delta_p99_us: f64,
    pub deltas_2k_ms: f64,
    pub deltas_20k_ms: f64,
    pub many_over_ideal_percent: f64,
    pub one_session: Memory,
    pub after_2k: Memory,
    pub after_20k: Memory,
    pub many_sessions: Memory,
    pub further_session_kib: f64,
}

/// Measures everything.
pub fn all(command: &Command, server: &ModelServer, runtime: &Runtime, quick: bool) -> Figures {
    let times = |full: usize| if quick { full.div_ceil(10) } else { full };
    let mut figures = Figures::default();
    starts(command, times(30), &mut figures);
    turns(command, server, runtime, times(50), &mut figures);
    latency(command, server, runtime, &mut figures);
    bursts(command, times(10), &mut figures);
    many(command, &mut figures);
    figures
}

/// From nothing to a session, in fresh processes; memory with one idle session.
fn starts(command: &Command, repetitions: usize, figures: &mut Figures) {
    let (mut initialized, mut opened) = (Vec::new(), Vec::new());
    for repetition in 0..repetitions {
        let mut agent = Agent::start(command);
        initialized.push(ms(agent.initialize() - agent.spawned));
        opened.push(ms(agent.session().1 - agent.spawned));
        if repetition == 0 {
            std::thread::sleep(SETTLE);
            figures.one_session = Memory::of(agent.pid());
        }
    }
    figures.initialize_ms = median(&mut initialized);
    figures.session_ms = median(&mut opened);
}

/// From a prompt's line to the model's request, whole at the server.
fn turns(
    command: &Command,
    server: &ModelServer,
    runtime: &Runtime,
    repetitions: usize,
    figures: &mut Figures,
) {
    let mut agent = open(command);
    let (session, _) = agent.session();
    let mut later = Vec::new();
    for repetition in 0..=repetitions {
        let index = server.count();
        let (id, written) = agent.prompt(&session, "[[say 3 tokens 0 rate]]");
        let request = runtime.block_on(server.request(index));
        agent.response(id);
        let time = us(request.at - written);
        if repetition == 0 {
            figures.first_request_us = time;
        } else {
            later.push(time);
        }
    }
    figures.request_us = median(&mut later);
}

/// From a delta's write at the server to the client's line that holds it.
fn latency(command: &Command, server: &ModelServer, runtime: &Runtime, figures: &mut Figures) {
    let mut agent = open(command);
    let (session, _) = agent.session();
    let (count, rate) = LATENCY;
    let index = server.count();
    let (id, _) = agent.prompt(&session, &format!("[[say {count} tokens {rate} rate]]"));
    let (_, lines) = agent.response(id);
    runtime.block_on(server.replied(index));
    // The first write is the role's chunk; then each delta is a write of its own.
    let sent = server.sent(index).split_off(1);
    let arrived = arrivals(&lines, &session, count);
    let mut delays: Vec<f64> = arrived
        .iter()
        .zip(&sent)
        .map(|(arrived, sent)| us(arrived.saturating_duration_since(*sent)))
        .collect();
    figures.delta_us = median(&mut delays);
    figures.delta_p99_us = delays[delays.len() * 99 / 100];
}

/// Long answers as fast as the server can send them, and the memory that stays after them.
fn bursts(command: &Command, repetitions: usize, figures: &mut Figures) {
    let mut agent = open(command);
    let (session, _) = agent.session();
    let turn = |agent: &mut Agent, count: u32| {
        let (id, written) = agent.prompt(&session, &format!("[[say {count} tokens 0 rate]]"));
        let (end, lines) = agent.response(id);
        arrivals(&lines, &session, count);
        ms(end.at - written)
    };
    let mut times: Vec<f64> = (0..repetitions).map(|_| turn(&mut agent, 2_000)).collect();
    figures.deltas_2k_ms = median(&mut times);
    std::thread::sleep(SETTLE);
    figures.after_2k = Memory::of(agent.pid());
    let mut times: Vec<f64> = (0..repetitions.div_ceil(3)).map(|_| turn(&mut agent, 20_000)).collect();
    figures.deltas_20k_ms = median(&mut times);
    std::thread::sleep(SETTLE);
    figures.after_20k = Memory::of(agent.pid());
}

/// Many sessions in one process, a turn in each at the same time.
fn many(command: &Command, figures: &mut Figures) {
    let mut agent = open(command);
    let sessions: Vec<String> = (0..SESSIONS).map(|_| agent.session().0).collect();
    let (count, rate) = PACED;
    let text = format!("[[say {count} tokens {rate} rate]]");
    let ideal = f64::from(count - 1) / f64::from(rate);
    let start = Instant::now();
    let mut open: Vec<u64> = sessions.iter().map(|session| agent.prompt(session, &text).0).collect();
    let mut lines = Vec::new();
    let halfway = start + Duration::from_secs_f64(ideal / 2.0);
    let mut running = None;
    while !open.is_empty() {
        let line = agent.line();
        if running.is_none() && line.at > halfway {
            running = Some(Memory::of(agent.pid()));
        }
        if !line.text.contains("\"method\":") {
            let message = line.json();
            assert!(message["error"].is_null(), "{}", line.text);
            open.retain(|id| message["id"] != *id);
        }
        lines.push(line);
    }
    let took = lines.last().expect("there were turns").at - start;
    for session in &sessions {
        arrivals(&lines, session, count);
    }
    figures.many_over_ideal_percent = (took.as_secs_f64() / ideal - 1.0) * 100.0;
    figures.many_sessions = running.unwrap_or_else(|| Memory::of(agent.pid()));
    let further = figures.many_sessions.pss.saturating_sub(figures.one_session.pss);
    figures.further_session_kib = further as f64 / (SESSIONS - 1) as f64;
}

fn open(command: &Command) -> Agent {
    let mut agent = Agent::start(command);
    agent.initialize();
    agent
}

/// When each delta `w0 `, `w1 `, … of a session's answer arrived. Fails if the text is not whole and in order.
fn arrivals(lines: &[Line], session: &str, count: u32) -> Vec<Instant> {
    let mut whole: HashMap<usize, Instant> = HashMap::new();
    let mut text = String::new();
    for line in lines {
        if let Some(chunk) = line.chunk().filter(|chunk| chunk.session == session) {
            text.push_str(&chunk.text);
            whole.insert(text.len(), line.at);
        }
    }
    let expected: Vec<String> = (0..count).map(|number| format!("w{number} ")).collect();
    assert_eq!(text, expected.concat(), "the answer is whole and in order");
    let mut ends: Vec<(usize, Instant)> = whole.into_iter().collect();
    ends.sort_unstable();
    let mut position = 0;
    expected
        .iter()
        .map(|delta| {
            position += delta.len();
            ends[ends.partition_point(|(end, _)| *end < position)].1
        })
        .collect()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
