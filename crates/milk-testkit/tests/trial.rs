//! trial
use milk_testkit::*;
#[tokio::test]
async fn trial() {
    for v in [1, 2] {
        let home = TestHome::new();
        let agent = AgentProcess::start(
            home.launch(
                "python3",
                &["/work/shared/tools/acp_fake_agent.py", "--set", "v1_state=0", "--set", "boolean=0"],
            )
            .policy(Policy::Allow),
        );
        agent.initialize(v).await;
        let s = agent.new_session(home.workspace()).await;
        for w in ["hello there", "tool", "perm", "plan", "thought", "fail"] {
            let t = agent.turn(&s, w).await;
            println!("{t:?}");
        }
        println!("{:?}", agent.transcript().tool_rows(&s));
        println!("{:?}", agent.transcript().validate(v));
        println!("{:?}", agent.until_idle(&s).await);
        assert!(agent.shutdown().await.success());
    }
}
